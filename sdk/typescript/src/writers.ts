// Writers of the parts of a run, each of which begins and ends with events of its own.

import { ConfigError } from "./errors.js";
import { newId } from "./ids.js";
import { toJson } from "./json.js";
import type { TextInit, TextWriter, ToolCallInit, ToolCallWriter } from "./run-handle.js";
import type { NewEvent } from "./types.js";

/** The run that writers write into. */
export interface Sink {
  append(events: readonly NewEvent[]): Promise<void>;
  /** Rejects with the error, and so does the end of the run. */
  refuse(error: ConfigError): Promise<never>;
}

/** The parts of a run that have begun and not ended, in the order in which they began. */
export class Parts {
  readonly #sink: Sink;
  readonly #open = new Set<Part>();

  constructor(sink: Sink) {
    this.#sink = sink;
  }

  text({ messageId = newId(), role = "assistant", ...members }: TextInit): TextWriter {
    const owner = ownerOf(members);
    const begin = [{ type: "TEXT_MESSAGE_START", messageId, role, ...members } as NewEvent];
    const part = this.begin(begin, [{ type: "TEXT_MESSAGE_END", messageId, ...owner }]);
    return new PieceWriter(part, "TEXT_MESSAGE_CONTENT", messageId, owner);
  }

  reasoning({ messageId = newId(), ...members }: TextInit): TextWriter {
    const owner = ownerOf(members);
    const part = this.begin(
      [
        { type: "REASONING_START", messageId, ...owner },
        { type: "REASONING_MESSAGE_START", messageId, role: "reasoning", ...members },
      ],
      [
        { type: "REASONING_MESSAGE_END", messageId, ...owner },
        { type: "REASONING_END", messageId, ...owner },
      ],
    );
    return new PieceWriter(part, "REASONING_MESSAGE_CONTENT", messageId, owner);
  }

  toolCall(toolCallName: string, args: unknown, { toolCallId = newId(), ...members }: ToolCallInit): ToolCallWriter {
    const owner = ownerOf(members);
    const begin: NewEvent[] = [{ type: "TOOL_CALL_START", toolCallId, toolCallName, ...members }];
    const part = this.begin(begin, [{ type: "TOOL_CALL_END", toolCallId, ...owner }]);
    const writer = new CallWriter(part, this.#sink, toolCallId, owner);
    if (args !== undefined) void writer.whole(args);
    return writer;
  }

  /** Begins a part with events, and ends it with others. */
  begin(begin: readonly NewEvent[], end: readonly NewEvent[]): Part {
    const part = new Part(this.#sink, end, () => this.#open.delete(part));
    this.#open.add(part);
    void this.#sink.append(begin);
    return part;
  }

  /** Ends all open parts, in the order in which they began. */
  endAll(): void {
    for (const part of [...this.#open]) void part.end();
  }
}

/** An event between begin and end. */
interface Piece {
  readonly type: string;
  readonly delta: string;
  readonly [member: string]: unknown;
}

/** One part. */
class Part {
  readonly #sink: Sink;
  readonly #end: readonly NewEvent[];
  readonly #ended: () => void;
  isOpen = true;

  constructor(sink: Sink, end: readonly NewEvent[], ended: () => void) {
    this.#sink = sink;
    this.#end = end;
    this.#ended = ended;
  }

  /** Appends an event between begin and end. */
  add(event: Piece): Promise<void> {
    const { type, delta } = event;
    if (!this.isOpen) return this.#sink.refuse(new ConfigError(`${type} after the end: begin another part`));
    if (typeof delta !== "string") {
      return this.#sink.refuse(new ConfigError(`a piece of ${type} must be a string, not ${typeof delta}`));
    }
    // A piece of AG-UI is not empty.
    return delta === "" ? Promise.resolve() : this.#sink.append([event as NewEvent]);
  }

  end(): Promise<void> {
    if (!this.isOpen) return Promise.resolve();
    this.isOpen = false;
    this.#ended();
    return this.#sink.append(this.#end);
  }
}

class PieceWriter implements TextWriter {
  readonly messageId: string;
  readonly #part: Part;
  readonly #type: string;
  readonly #owner: Owner;

  constructor(part: Part, type: string, messageId: string, owner: Owner) {
    this.messageId = messageId;
    this.#part = part;
    this.#type = type;
    this.#owner = owner;
  }

  write(delta: string): Promise<void> {
    return this.#part.add({ type: this.#type, messageId: this.messageId, delta, ...this.#owner });
  }

  end(): Promise<void> {
    return this.#part.end();
  }
}

class CallWriter implements ToolCallWriter {
  readonly toolCallId: string;
  readonly #part: Part;
  readonly #sink: Sink;
  readonly #owner: Owner;

  constructor(part: Part, sink: Sink, toolCallId: string, owner: Owner) {
    this.toolCallId = toolCallId;
    this.#part = part;
    this.#sink = sink;
    this.#owner = owner;
  }

  write(delta: string): Promise<void> {
    return this.#part.add({ type: "TOOL_CALL_ARGS", toolCallId: this.toolCallId, delta, ...this.#owner });
  }

  /** Appends complete arguments. */
  whole(args: unknown): void {
    void this.#json(args, (text) => this.write(text));
    void this.end();
  }

  end(): Promise<void> {
    return this.#part.end();
  }

  result(value: unknown): Promise<void> {
    void this.end();
    const { toolCallId } = this;
    const result = { type: "TOOL_CALL_RESULT", messageId: newId(), toolCallId, role: "tool", ...this.#owner } as const;
    if (typeof value === "string") return this.#sink.append([{ ...result, content: value }]);
    return this.#json(value ?? null, (content) => this.#sink.append([{ ...result, content }]));
  }

  /** Writes the JSON text of a value. Not an async function: rejections that nobody awaits are reported by the end of the run. */
  #json(value: unknown, write: (text: string) => Promise<void>): Promise<void> {
    let text: string;
    try {
      text = toJson(value);
    } catch (error) {
      return this.#sink.refuse(error as ConfigError);
    }
    return write(text);
  }
}

type Owner = { readonly subagentRunId?: string };

/** The subagent that all events of a part name. */
function ownerOf({ subagentRunId }: { readonly subagentRunId?: unknown }): Owner {
  return typeof subagentRunId === "string" ? { subagentRunId } : {};
}
