/** Progress is reported once per this many events. */
const TOLD = 2_000;

/**
 * The log up to an event as NDJSON, one event with its seq per line, as the server sends it; reports its progress. Throws if the log
 * ends before that event.
 */
export async function ndjson(lines: AsyncIterable<string>, tail: number, told: (seq: number) => void): Promise<Blob> {
  const parts: BlobPart[] = [];
  let some: string[] = [];
  let seq = 0;
  const pack = () => {
    // Blobs are stored outside of the page's memory.
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
  if (seq < tail) throw new Error(`there is no event after seq ${seq}`);
  if (some.length > 0) pack();
  return new Blob(parts, { type: "application/x-ndjson" });
}

/** A file name that is valid in any file system. */
export function fileName(threadId: string): string {
  const plain = threadId.replace(/[^\p{L}\p{N}._-]+/gu, "-").slice(0, 80);
  return `${plain.replace(/^[.-]+|[.-]+$/g, "") || "thread"}.ndjson`;
}

/** Has the browser save the file. */
export function save(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  // Revoked only after the browser has begun the download.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
