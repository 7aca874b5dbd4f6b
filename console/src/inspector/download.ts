/** How far it is is told once in so many events. */
const TOLD = 2_000;

/**
 * The log up to an event as NDJSON, one event with its place a line, as the server sends it; tells how far it is. Throws if it ends
 * before that event.
 */
export async function ndjson(lines: AsyncIterable<string>, tail: number, told: (seq: number) => void): Promise<Blob> {
  const parts: BlobPart[] = [];
  let some: string[] = [];
  let seq = 0;
  const pack = () => {
    // Out of the page's own memory.
    parts.push(new Blob(some));
    some = [];
    told(seq);
  };
  for await (const line of lines) {
    some.push(`${line}\n`);
    seq += 1;
    if (some.length === TOLD) pack();
    if (seq === tail) break;
  }
  if (seq < tail) throw new Error(`there is no event behind seq ${seq}`);
  if (some.length > 0) pack();
  return new Blob(parts, { type: "application/x-ndjson" });
}

/** A name for a file that any file system takes. */
export function fileName(threadId: string): string {
  const plain = threadId.replace(/[^\p{L}\p{N}._-]+/gu, "-").slice(0, 80);
  return `${plain.replace(/^[.-]+|[.-]+$/g, "") || "thread"}.ndjson`;
}

/** Has the browser save it. */
export function save(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  // Not before the browser has begun.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
