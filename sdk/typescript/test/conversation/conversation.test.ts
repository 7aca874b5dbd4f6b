import { describe, expect, test } from "vitest";
import { Conversation } from "../../src/conversation/index.js";
import type { AgUiEvent, JsonPatchOperation, Message, ThreadEvent } from "../../src/types.js";
import { Random } from "../harness/random.js";
import { busyMs } from "../harness/until.js";
import { run } from "./generate.js";

const start = (messageId: string): AgUiEvent => ({ type: "TEXT_MESSAGE_START", messageId });
const say = (messageId: string, delta: string): AgUiEvent => ({ type: "TEXT_MESSAGE_CONTENT", messageId, delta });
const started = (messages: Message[]): AgUiEvent => {
  const run = { threadId: "t", runId: "r" };
  return { type: "RUN_STARTED", ...run, input: { ...run, messages } };
};
const many = (count: number): Message[] =>
  Array.from({ length: count }, (_, index) => ({ id: `m${index}`, role: "user", content: "hello" }));

describe("results of a read", () => {
  test("are the same objects until they change", () => {
    const conversation = new Conversation({ messages: many(3), state: { a: { b: 1 }, c: {} } });
    const { messages, state, interrupts, pendingToolCallIds } = conversation;
    conversation.apply([
      { type: "CUSTOM", name: "n", value: 1 },
      { type: "TEXT_MESSAGE_END", messageId: "m0" },
      { type: "RUN_FINISHED", threadId: "t", runId: "r" },
      say("unknown", "x"),
      { type: "STATE_SNAPSHOT", snapshot: { a: { b: 1 }, c: {} } },
      {
        type: "STATE_DELTA",
        delta: [
          { op: "add", path: "/a/b", value: 2 },
          { op: "remove", path: "/nope" },
        ],
      },
      { type: "MESSAGES_SNAPSHOT", messages: many(3) },
    ]);
    expect(conversation.messages).toBe(messages);
    expect(conversation.state).toBe(state);
    expect(conversation.interrupts).toBe(interrupts);
    expect(conversation.pendingToolCallIds).toEqual(pendingToolCallIds);
    conversation.apply([say("m1", "!"), { type: "STATE_DELTA", delta: [{ op: "add", path: "/a/b", value: 2 }] }]);
    expect(conversation.messages).not.toBe(messages);
    expect(conversation.messages.map((message, at) => message === messages[at])).toEqual([true, false, true]);
    expect(conversation.messages[1]).toEqual({ id: "m1", role: "user", content: "hello!" });
    expect(state).toEqual({ a: { b: 1 }, c: {} });
    expect(conversation.state).toEqual({ a: { b: 2 }, c: {} });
    expect((conversation.state as { c: unknown }).c).toBe((state as { c: unknown }).c);
  });

  test("never change, whatever events follow, and neither do the events", () => {
    const random = new Random();
    for (let number = 0; number < 40; number += 1) {
      const events = [run(random, "t", "1"), run(random, "t", "2")].flat();
      const sent = JSON.stringify(events);
      const [read, unread] = [new Conversation(), new Conversation()];
      const seen: [unknown, string][] = [];
      for (const event of events) {
        read.apply([event as ThreadEvent]);
        if (random.chance(0.3)) {
          for (const part of [read.messages, read.state, read.interrupts]) seen.push([part, JSON.stringify(part)]);
        }
      }
      unread.apply(events as ThreadEvent[]);
      expect([unread.messages, unread.state, unread.interrupts], `seed ${random.seed}`).toEqual([
        read.messages,
        read.state,
        read.interrupts,
      ]);
      for (const [part, was] of seen) expect(JSON.stringify(part), `seed ${random.seed}`).toBe(was);
      expect(JSON.stringify(events)).toBe(sent);
    }
  });
});

describe("older messages", () => {
  const shown = (conversation: Conversation) => conversation.messages.map(({ id }) => id);

  test("are inserted before the others, which stay unchanged", () => {
    const conversation = new Conversation({ messages: many(3).slice(1), hasMore: true });
    conversation.apply([start("new"), say("new", "x")]);
    const [first] = conversation.messages;
    conversation.prepend(many(1));
    expect(shown(conversation)).toEqual(["m0", "m1", "m2", "new"]);
    expect(conversation.messages[1]).toBe(first);
    conversation.apply([say("new", "y"), say("m0", "!")]);
    expect(conversation.messages.at(-1)?.content).toBe("xy");
    expect(conversation.messages[0]?.content).toBe("hello!");
    expect(conversation.isIncomplete).toBe(false);
  });

  test.each<[string, AgUiEvent[], boolean]>([
    ["a text that is new", [start("n"), say("n", "x"), { type: "TEXT_MESSAGE_END", messageId: "n" }], false],
    [
      "a call that is new",
      [{ type: "TOOL_CALL_START", toolCallId: "c", toolCallName: "f", parentMessageId: "p" }],
      false,
    ],
    ["a question", [started([{ id: "u", role: "user", content: "" }])], false],
    ["more of an older text", [say("old", "x")], true],
    [
      "the result of an older call",
      [{ type: "TOOL_CALL_RESULT", messageId: "r", toolCallId: "old", content: "" }],
      true,
    ],
    ["all messages", [{ type: "MESSAGES_SNAPSHOT", messages: many(5) }], true],
    ["a history", [started([{ id: "old", role: "user", content: "" }, ...many(1)])], true],
  ])("%s: whether they are needed", (_, events, isIncomplete) => {
    const partial = new Conversation({ messages: many(3), hasMore: true });
    partial.apply(events);
    expect(partial.isIncomplete).toBe(isIncomplete);
    const whole = new Conversation({ messages: many(3) });
    whole.apply(events);
    expect(whole.isIncomplete).toBe(false);
  });
});

describe("untrusted patches", () => {
  const snapshot = (state: unknown): AgUiEvent => ({ type: "STATE_SNAPSHOT", snapshot: state });
  const delta = (...operations: JsonPatchOperation[]): AgUiEvent => ({ type: "STATE_DELTA", delta: operations });

  test("cannot make a state grow without bound", () => {
    const conversation = new Conversation();
    conversation.apply([snapshot({ a: "x".repeat(1_000) })]);
    const doubling = delta({ op: "copy", from: "", path: "/b" }, { op: "copy", from: "", path: "/c" });
    conversation.apply(Array.from({ length: 64 }, () => doubling));
    expect(JSON.stringify(conversation.state).length).toBeLessThan(17 * 1_024 * 1_024);
    expect(conversation.skippedDeltas).toBeGreaterThan(30);
  });

  test("cannot reach a prototype", () => {
    const conversation = new Conversation();
    conversation.apply([
      delta({ op: "add", path: "/__proto__/polluted", value: 1 }),
      delta({ op: "add", path: "/constructor/prototype/polluted", value: 1 }),
      snapshot(JSON.parse(`{"__proto__":{"x":1}}`)),
      delta({ op: "add", path: "/a", value: 1 }),
    ]);
    expect(({} as { polluted?: number }).polluted).toBeUndefined();
    expect(JSON.stringify(conversation.state)).toBe(`{"__proto__":{"x":1},"a":1}`);
  });
});

describe("the execution time", () => {
  // Ten times the input may take thirty times as long: a quadratic algorithm takes a hundred times as long.
  const isLinear = (make: (count: number) => () => void, count: number): void => {
    make(count)();
    const few = Math.max(1, busyMs(make(count / 10)));
    expect(busyMs(make(count)) / few).toBeLessThan(30);
  };

  test("of text, arguments, results and patches is linear in their number", () => {
    const deltas = (count: number, event: AgUiEvent) => Array.from({ length: count }, () => event);
    const fold = (events: AgUiEvent[]) => () => {
      const conversation = new Conversation({ messages: many(10_000) });
      conversation.apply(events);
      expect(conversation.messages.length).toBeGreaterThan(10_000 - 1);
    };
    const call: AgUiEvent = { type: "TOOL_CALL_START", toolCallId: "c", toolCallName: "f" };
    const results = (count: number): AgUiEvent[] =>
      Array.from({ length: count }, (_, at) => ({
        type: "TOOL_CALL_RESULT",
        messageId: `r${at}`,
        toolCallId: "c",
        content: "",
      }));
    isLinear((count) => fold([start("x"), ...deltas(count, say("x", "token "))]), 100_000);
    isLinear(
      (count) => fold([call, ...deltas(count, { type: "TOOL_CALL_ARGS", toolCallId: "c", delta: "token " })]),
      100_000,
    );
    isLinear((count) => fold([call, start("after"), ...results(count)]), 20_000);
    const add: AgUiEvent = { type: "STATE_DELTA", delta: [{ op: "add", path: "/list/-", value: { x: 1 } }] };
    isLinear((count) => fold([{ type: "STATE_SNAPSHOT", snapshot: { list: [] } }, ...deltas(count, add)]), 20_000);
  });
});
