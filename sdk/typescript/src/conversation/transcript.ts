import type { ToolCall } from "../types.js";
import { type Kind, Lanes, type Owner, type Said } from "./chunks.js";
import type { Drafts } from "./drafts.js";
import { type CallDraft, type Draft, List, type Place } from "./list.js";
import {
  type FoldedMessage,
  isObject,
  json,
  Malformed,
  type Members,
  mergeMetadata,
  metadataOf,
  optionalWord,
  ownerOf,
  parentOf,
  readMessages,
  required,
  textRole,
  word,
} from "./read.js";
import { merge } from "./snapshot.js";

/** Events of streams, with the kind and the part. */
const STREAMED = /^(?:(TEXT|REASONING)_MESSAGE_(START|CONTENT|END|CHUNK)|TOOL_CALL_(START|ARGS|END|CHUNK))$/;

/** Events that close the open chunks of their lane … */
const CLOSING =
  /^((TEXT|REASONING|THINKING_TEXT)_MESSAGE_(START|CONTENT|END)|(REASONING|THINKING)_(START|END)|CUSTOM|STEP_(START|FINISH)ED|STATE_(SNAPSHOT|DELTA)|TOOL_CALL_(START|ARGS|END|RESULT))$/;
/** … and of all lanes. */
const CLOSING_ALL = /^(RUN_(STARTED|FINISHED|ERROR)|MESSAGES_SNAPSHOT)$/;

/** The messages, and the effects of text and tool call events on them. */
export class Transcript {
  #list: List;
  readonly #drafts: Drafts;
  #hasMore: boolean;
  #isIncomplete = false;
  readonly #lanes = new Lanes();
  #thoughts = 0;
  #thinking: string | undefined;

  /** Creates a transcript; `hasMore`: there are older messages that are not included. */
  constructor(messages: readonly FoldedMessage[], hasMore: boolean, drafts: Drafts) {
    this.#list = new List(messages, drafts);
    this.#drafts = drafts;
    this.#hasMore = hasMore;
    for (const { id } of messages) {
      const counted = /^thinking-(\d{1,15})$/.exec(id);
      if (counted) this.#thoughts = Math.max(this.#thoughts, Number(counted[1]));
    }
  }

  /** True if an event refers to a message that may be among the older ones. */
  get isIncomplete(): boolean {
    return this.#isIncomplete;
  }

  get list(): List {
    return this.#list;
  }

  /** Inserts older messages before the existing ones; `hasMore`: there are even older ones. */
  prepend(older: readonly FoldedMessage[], hasMore: boolean): void {
    this.#hasMore = hasMore;
    this.#replace([...older, ...this.#list.read()]);
  }

  /** Applies an event if it affects messages, and closes the chunks that it ends. */
  apply(type: string, event: Members): void {
    this.#closeLanes(type, event);
    const streamed = STREAMED.exec(type);
    if (streamed) this.#stream((streamed[1] ?? "TOOL") as Kind, streamed[2] ?? streamed[3], event);
    else if (type === "TOOL_CALL_RESULT") this.#result(event);
    else if (type === "REASONING_ENCRYPTED_VALUE") this.#encrypted(event);
    else if (type.startsWith("THINKING_TEXT_MESSAGE_")) this.#think(type.slice(22), event);
    else if (type === "MESSAGES_SNAPSHOT") this.#snapshot(event);
    else if (type === "RUN_STARTED") this.#begin(event.input);
  }

  /** The message to which an event refers. */
  find(id: string): Place | undefined {
    return this.#met(this.#list.find(id));
  }

  /** Closes open chunks: an event that is not a chunk closes those of its lane, an event of the run those of all lanes. */
  #closeLanes(type: string, event: Members): void {
    if (this.#lanes.isEmpty) return;
    if (CLOSING_ALL.test(type)) return this.#lanes.closeAll();
    const endsOwner = /^SUBAGENT_(FINISHED|ERROR)$/.test(type);
    if (!endsOwner && !CLOSING.test(type)) return;
    const owner = ownerOf(event);
    if (!endsOwner || owner !== undefined) this.#lanes.close(owner);
  }

  #stream(kind: Kind, part: string | undefined, event: Members): void {
    const id = optionalWord(kind === "TOOL" ? event.toolCallId : event.messageId);
    const metadata = metadataOf(event.metadata);
    if (part === "CHUNK") return this.#chunk(kind, id, event, metadata);
    if (part === "END") return this.#push(kind, required(id), undefined, metadata);
    if (part !== "START") return this.#push(kind, required(id), required(event.delta), metadata);
    const said = saidOf(kind, event);
    if (kind === "TOOL") required(said[0]);
    this.#open(kind, required(id), said, ownerOf(event), metadata);
  }

  #chunk(kind: Kind, id: string | undefined, event: Members, metadata: Members | undefined): void {
    const [said, owner] = [saidOf(kind, event), ownerOf(event)];
    if (event.delta !== undefined) required(event.delta);
    const stream = this.#lanes.take({ kind, id, owner, said });
    if (stream === undefined) throw new Malformed();
    if (stream.opened) this.#open(kind, stream.id, said, owner, metadata);
    // A provider's payload, and the metadata of a continuing chunk, require a delta, which may be empty.
    const hasPayload = event.rawEvent !== undefined && event.rawEvent !== null;
    if (event.delta === undefined && !hasPayload && (stream.opened || metadata === undefined)) return;
    this.#push(kind, stream.id, (event.delta ?? "") as string, metadata);
  }

  #open(kind: Kind, id: string, said: Said, owner: Owner, metadata: Members | undefined): void {
    if (kind === "TOOL") return this.#openCall(id, said, owner, metadata);
    if (this.#list.find(id) === undefined) {
      const [role = "assistant", name] = said;
      this.#list.push(owned({ id, role, content: "", ...(name !== undefined && { name }) }, owner));
    }
    this.#push(kind, id, undefined, metadata);
  }

  #openCall(id: string, [name = "", parent]: Said, owner: Owner, metadata: Members | undefined): void {
    const known = this.#list.findCall(id);
    if (known !== undefined) {
      // A call that is started again by a replay stays unchanged.
      const call = this.#list.editCall(known);
      call.function.name = name;
      return mergeMetadata(call, metadata);
    }
    const call: Draft<ToolCall> = { id, type: "function", function: { name, arguments: "" } };
    mergeMetadata(call, metadata);
    // An empty id counts as absent.
    const found = parent ? this.#list.find(parent) : undefined;
    if (found?.message.role === "assistant") return this.#list.pushCall(found, call);
    const message: FoldedMessage = { id: (found === undefined && parent) || id, role: "assistant", toolCalls: [call] };
    this.#list.push(this.#list.find(message.id) ? message : owned(message, owner));
  }

  /** Appends to the text of a message or to the arguments of a call. */
  #push(kind: Kind, id: string, delta: string | undefined, metadata: Members | undefined): void {
    if (delta === undefined && metadata === undefined) return;
    if (kind === "TOOL") {
      const call = this.#call(id);
      if (call === undefined) return;
      call.function.arguments += delta ?? "";
      return mergeMetadata(call, metadata);
    }
    const message = this.#text(id);
    if (message === undefined) return;
    // A content that is not a text is replaced by the text.
    if (delta !== undefined) message.content = typeof message.content === "string" ? message.content + delta : delta;
    mergeMetadata(message, metadata);
  }

  #result(event: Members): void {
    const [id, toolCallId, { content }] = [word(event.messageId), word(event.toolCallId), event];
    if (typeof content !== "string" && !Array.isArray(content)) throw new Malformed();
    const message: Draft<FoldedMessage> = owned(
      { id, role: "tool", content: typeof content === "string" ? content : json(content), toolCallId },
      ownerOf(event),
    );
    mergeMetadata(message, metadataOf(event.metadata));
    const caller = this.#met(this.#list.findCall(toolCallId));
    if (caller === undefined) this.#list.push(message);
    else this.#list.pushResult(caller.place, message);
  }

  #encrypted(event: Members): void {
    const [subtype, id, value] = [word(event.subtype), word(event.entityId), word(event.encryptedValue)];
    const holder = subtype === "tool-call" ? this.#call(id) : this.#text(id);
    if (holder) holder.encryptedValue = value;
  }

  /** THINKING_* events are REASONING_* events of older protocol versions, without ids. */
  #think(part: string, event: Members): void {
    const metadata = metadataOf(event.metadata);
    if (part === "START") {
      const owner = ownerOf(event);
      do this.#thoughts += 1;
      while (this.#list.find(`thinking-${this.#thoughts}`));
      this.#thinking = `thinking-${this.#thoughts}`;
      this.#open("REASONING", this.#thinking, ["reasoning", undefined], owner, metadata);
    } else if (part === "CONTENT" || part === "END") {
      const delta = part === "END" ? undefined : required(event.delta);
      if (this.#thinking !== undefined) this.#push("REASONING", this.#thinking, delta, metadata);
      if (part === "END") this.#thinking = undefined;
    }
  }

  #snapshot(event: Members): void {
    if (!Array.isArray(event.messages)) throw new Malformed();
    const metadata = metadataOf(event.metadata);
    this.#replace(merge(this.#list.read(), readMessages(event.messages), metadata));
    this.#isIncomplete ||= this.#hasMore;
  }

  /** Adds the messages in the input of a run that are not known yet. */
  #begin(input: unknown): void {
    this.#thinking = undefined;
    let isNew = false;
    for (const message of readMessages(isObject(input) ? input.messages : [])) {
      const isKnown = this.#list.find(message.id) !== undefined;
      // An unknown message before a known one is an old one.
      if (isKnown && isNew) this.#isIncomplete ||= this.#hasMore;
      isNew ||= !isKnown;
      if (!isKnown) this.#list.push(message);
    }
  }

  #replace(messages: readonly FoldedMessage[]): void {
    this.#list = new List(messages, this.#drafts, this.#list.read());
  }

  /** Returns a message for a change of its text. Activities have no text: such events are ignored completely. */
  #text(id: string): Draft<FoldedMessage> | undefined {
    const place = this.find(id);
    return place && place.message.role !== "activity" ? this.#list.edit(place) : undefined;
  }

  #call(id: string): CallDraft | undefined {
    const called = this.#met(this.#list.findCall(id));
    return called && this.#list.editCall(called);
  }

  /** Checks the target of an event: a missing one may be among the older messages that are not loaded. */
  #met<T>(found: T | undefined): T | undefined {
    if (found === undefined) this.#isIncomplete ||= this.#hasMore;
    return found;
  }
}

function saidOf(kind: Kind, event: Members): Said {
  if (kind === "TEXT") return [textRole(event), optionalWord(event.name)];
  if (kind === "TOOL") return [optionalWord(event.toolCallName), parentOf(event)];
  return ["reasoning", undefined];
}

/** The message, attributed to a subagent or to the parent agent. */
export function owned(message: FoldedMessage, owner: Owner): FoldedMessage {
  return owner === undefined ? message : { ...message, subagentRunId: owner };
}
