/** One event of an event stream. */
export interface StreamEvent {
  /** `message` if it has no name. */
  readonly name: string;
  readonly data: string;
}

/**
 * Reads server-sent events (WHATWG HTML, section 9.2) as they come, cut anywhere, also inside a character. Gives what takes
 * the bytes. `onRetry` is told when to come again, in milliseconds, `onComment` that a comment came: a heartbeat. Ids are passed
 * over: what is followed here says its position in its data.
 */
export function streamParser(
  onEvent: (event: StreamEvent) => void,
  onRetry: (ms: number) => void,
  onComment: () => void,
): (bytes: Uint8Array) => void {
  const decoder = new TextDecoder();
  /** The line that has not ended yet, in pieces: an event may be large, and come in many. */
  let pieces: string[] = [];
  let afterReturn = false;
  let name = "";
  let data: string[] = [];

  const take = (line: string) => {
    if (line === "") {
      // Without data there is no event.
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
    // CR LF is one end of a line, also if it is cut in between.
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
