/** One event of an event stream. */
export interface StreamEvent {
  /** The name of the event; `message` if the stream gives none. */
  readonly name: string;
  readonly data: string;
}

/**
 * Creates a parser of server-sent events (WHATWG HTML, section 9.2), which accepts chunks that are cut anywhere, even
 * inside a character. Returns a function that takes the bytes. `onRetry` receives the reconnection time in milliseconds;
 * `onComment` is called for every comment, which is a heartbeat. Event ids are ignored, since the data contains the
 * position.
 */
export function streamParser(
  onEvent: (event: StreamEvent) => void,
  onRetry: (ms: number) => void,
  onComment: () => void,
): (bytes: Uint8Array) => void {
  const decoder = new TextDecoder();
  /** The incomplete line, in pieces: a large event arrives in many chunks. */
  let pieces: string[] = [];
  let afterReturn = false;
  let name = "";
  let data: string[] = [];

  const take = (line: string) => {
    if (line === "") {
      // An event without data is not dispatched.
      if (data.length > 0) onEvent({ name: name || "message", data: data.join("\n") });
      name = "";
      data = [];
    }
    if (line.startsWith(":")) onComment();
    const [, field, value = ""] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? [];
    if (field === "data") data.push(value);
    else if (field === "event") name = value;
    else if (field === "retry" && /^\d+$/.test(value)) onRetry(Number(value));
  };

  return (bytes) => {
    let text = decoder.decode(bytes, { stream: true });
    if (text === "") return;
    // CR LF is one line ending, even if it is split between two chunks.
    if (afterReturn && text.startsWith("\n")) text = text.slice(1);
    afterReturn = text.endsWith("\r");
    const lines = text.split(/\r\n|\r|\n/);
    const rest = lines.pop() ?? "";
    for (const line of lines) {
      take(pieces.join("") + line);
      pieces = [];
    }
    pieces.push(rest);
  };
}
