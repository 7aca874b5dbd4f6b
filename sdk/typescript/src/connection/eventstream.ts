/** One event of an event stream. */
export interface StreamEvent {
  /** `message` if it has no name. */
  readonly name: string;
  readonly data: string;
}

/** What is told of a stream. */
export interface StreamListener {
  event(event: StreamEvent): void;
  /** When to come again, in milliseconds. */
  retry(ms: number): void;
}

/**
 * Reads server-sent events (WHATWG HTML, section 9.2) as they come, cut anywhere, also inside a character. Ids are passed over:
 * what is followed here says its position in its data.
 */
export class StreamParser {
  readonly #listener: StreamListener;
  readonly #decoder = new TextDecoder();
  /** The line that has not ended yet, in pieces: an event may be large, and come in many. */
  #line: string[] = [];
  #afterReturn = false;
  #name = "";
  #data: string[] = [];

  constructor(listener: StreamListener) {
    this.#listener = listener;
  }

  push(bytes: Uint8Array): void {
    let text = this.#decoder.decode(bytes, { stream: true });
    // CR LF is one end of a line, also if it is cut in between.
    if (this.#afterReturn && text !== "") {
      if (text.startsWith("\n")) text = text.slice(1);
      this.#afterReturn = false;
    }
    const lines = text.split(/\r\n|\r|\n/);
    this.#afterReturn = text.endsWith("\r");
    const rest = lines.pop() ?? "";
    for (const line of lines) {
      this.#take(this.#line.length > 0 ? this.#line.join("") + line : line);
      this.#line = [];
    }
    if (rest !== "") this.#line.push(rest);
  }

  #take(line: string): void {
    if (line === "") return this.#dispatch();
    const colon = line.indexOf(":");
    // A comment.
    if (colon === 0) return;
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (field === "data") this.#data.push(value);
    else if (field === "event") this.#name = value;
    else if (field === "retry" && /^\d+$/.test(value)) this.#listener.retry(Number(value));
  }

  #dispatch(): void {
    const [name, data] = [this.#name || "message", this.#data];
    this.#name = "";
    this.#data = [];
    // Without data there is no event.
    if (data.length > 0) this.#listener.event({ name, data: data.join("\n") });
  }
}
