// Streams of events, valid and invalid.

import type { Random } from "../harness/random.js";
import type { Event } from "../harness/writer.js";

const IDS = ["m1", "m2", "m3", "m4", "m5"];
const CALLS = ["c1", "c2", "c3"];
const PATHS = ["/a", "/b", "/list", "/list/0", "/list/-", "/a/b", "/x~1y", "", "/list/01", "/nope/x", "/__proto__"];
const WORDS = ["", "Hello", " wörld", '{"a":', "日本語", "😀", "\ud83d", "\ude00 b", '"\\\n'];
const ODD = [null, 7, true, "", [], {}, "user", "tool", { "\ud83d": "\ude00" }];

/** A complete run: RUN_STARTED, up to `most` events, and an end. */
export function run(random: Random, threadId: string, runId: string, most = 40): Event[] {
  const started: Mutable = { type: "RUN_STARTED", threadId, runId };
  if (random.chance(0.6)) started.input = { threadId, runId, messages: random.list(3, () => message(random)) };
  const end = random.chance(0.2)
    ? { type: "RUN_ERROR", message: "no" }
    : { type: "RUN_FINISHED", threadId, runId, ...(random.chance(0.4) && { outcome: outcome(random) }) };
  return [started, ...random.list(most, () => event(random)), end];
}

type Mutable = { -readonly [K in keyof Event]: Event[K] };

function event(random: Random): Event {
  const made: Mutable = plain(random);
  if (random.chance(0.2)) made.metadata = { [random.pick(["a", "usage"])]: value(random, 1) };
  if (random.chance(0.3)) made.subagentRunId = random.pick(["s1", "s2"]);
  // Events that start or end a run are not generated in the middle.
  if (random.chance(0.1)) made[random.pick(Object.keys(made).filter((name) => name !== "type"))] = random.pick(ODD);
  return made;
}

function plain(random: Random): Event {
  const messageId = random.pick(IDS);
  const toolCallId = random.pick(CALLS);
  const delta = random.pick(WORDS);
  return random.pick<() => Event>([
    () => ({ type: "TEXT_MESSAGE_START", messageId, role: random.pick(["assistant", "user"]) }),
    () => ({ type: "TEXT_MESSAGE_CONTENT", messageId, delta }),
    () => ({ type: "TEXT_MESSAGE_CONTENT", messageId, delta }),
    () => ({ type: "TEXT_MESSAGE_END", messageId }),
    () => ({ type: "TEXT_MESSAGE_CHUNK", delta, ...(random.chance(0.6) && { messageId }) }),
    () => ({
      type: "TOOL_CALL_START",
      toolCallId,
      toolCallName: "f",
      ...(random.chance(0.5) && { parentMessageId: messageId }),
    }),
    () => ({ type: "TOOL_CALL_ARGS", toolCallId, delta }),
    () => ({ type: "TOOL_CALL_END", toolCallId }),
    () => ({ type: "TOOL_CALL_CHUNK", delta, toolCallName: "f", ...(random.chance(0.6) && { toolCallId }) }),
    () => ({ type: "TOOL_CALL_RESULT", messageId: `${messageId}-${toolCallId}`, toolCallId, content: delta }),
    () => ({ type: "REASONING_MESSAGE_START", messageId: `r-${messageId}`, role: "reasoning" }),
    () => ({ type: "REASONING_MESSAGE_CHUNK", delta, ...(random.chance(0.6) && { messageId: `r-${messageId}` }) }),
    () => ({ type: "REASONING_ENCRYPTED_VALUE", subtype: "message", entityId: messageId, encryptedValue: "e" }),
    () => ({
      type: `THINKING_TEXT_MESSAGE_${random.pick(["START", "CONTENT", "CONTENT", "END"])}`,
      delta: delta || "x",
    }),
    () => ({ type: "STATE_SNAPSHOT", snapshot: { a: value(random, 2), list: random.list(3, () => 1) } }),
    () => ({ type: "STATE_DELTA", delta: random.list(3, () => operation(random)) }),
    () => ({ type: "STATE_DELTA", delta: random.list(3, () => operation(random)) }),
    () => ({ type: "MESSAGES_SNAPSHOT", messages: random.list(6, () => message(random)) }),
    () => ({
      type: "ACTIVITY_SNAPSHOT",
      messageId: "plan",
      activityType: "p",
      content: { list: [1] },
      replace: random.chance(0.5),
    }),
    () => ({
      type: "ACTIVITY_DELTA",
      messageId: "plan",
      activityType: "p",
      patch: random.list(2, () => operation(random)),
    }),
    () => ({ type: "CUSTOM", name: "n", value: value(random, 1) }),
    () => ({ type: "OF_TOMORROW", messageId, delta }),
  ])();
}

function message(random: Random): object {
  const role = random.pick(["user", "assistant", "assistant", "tool", "reasoning", "system"]);
  const call = { id: random.pick(CALLS), type: "function", function: { name: "f", arguments: "{}" } };
  return {
    id: random.pick(IDS),
    role,
    ...(random.chance(0.8) && { content: random.pick([random.pick(WORDS), [{ type: "text", text: "part" }], null]) }),
    ...(role === "assistant" && random.chance(0.5) && { toolCalls: [call] }),
    ...(role === "tool" && { toolCallId: random.pick(CALLS) }),
    ...(random.chance(0.2) && { unknown: value(random, 1) }),
  };
}

function operation(random: Random): object {
  const op = random.pick(["add", "add", "replace", "remove", "move", "copy", "test", "of-tomorrow"]);
  return { op, path: random.pick(PATHS), from: random.pick(PATHS), value: value(random, 1) };
}

function value(random: Random, depth: number): unknown {
  if (depth === 0 || random.chance(0.5)) return random.pick<unknown>([null, true, 7, 0.5, -3, ...WORDS]);
  if (random.chance(0.3)) return random.list(3, () => value(random, depth - 1));
  return Object.fromEntries(random.list(3, () => [random.pick(["a", "b", "x/y", ""]), value(random, depth - 1)]));
}

function outcome(random: Random): object {
  const interrupts = random.list(2, (index) => ({ id: `i${index}`, reason: "ask", subagentRunId: null }));
  return random.pick([{ type: "interrupt", interrupts }, { type: "success" }]);
}
