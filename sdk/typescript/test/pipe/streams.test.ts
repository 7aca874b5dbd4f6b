// Streams of other packages as AG-UI's events, cut at each item. The streams of the AI SDK are those of the real packages.

import { describe, expect, test } from "vitest";
import { Conversation } from "../../src/conversation/index.js";
import { type Ask, ConfigError, type NewEvent, type Pipeable, type ThreadEvent } from "../../src/index.js";
import { pipe } from "../../src/pipe/pipe.js";
import type { LooseEvent, LooseMessage } from "../harness/loose.js";
import { AG_UI, CHAT, RESPONSE } from "./openai.js";
import { hits, KINDS, recorded } from "./recorded.js";

type Item = { readonly [member: string]: unknown };

/** A run without a server. */
class Pretended {
  readonly threadId = "t";
  readonly runId = "r";
  readonly events: LooseEvent[] = [];
  readonly asked: Ask[] = [];
  readonly stop = new AbortController();
  readonly signal = this.stop.signal;

  append = async (events: NewEvent | readonly NewEvent[]): Promise<void> => {
    // As a server has them.
    this.events.push(...(JSON.parse(JSON.stringify([events].flat())) as LooseEvent[]));
  };

  interrupt = async (...asks: readonly Ask[]): Promise<never> => {
    this.asked.push(...asks);
    throw new Error("interrupted");
  };
}

const streamOf = (items: readonly object[]): ReadableStream<object> =>
  new ReadableStream({
    start(controller) {
      items.forEach((item) => controller.enqueue(item));
      controller.close();
    },
  });

async function piped(items: readonly object[]): Promise<Pretended> {
  const run = new Pretended();
  await pipe(run, streamOf(items));
  return run;
}

/** Roles and contents of messages, as the fold of the package shows them, and the calls of each. */
function shown(events: readonly LooseEvent[]): unknown[] {
  const fold = new Conversation();
  fold.apply(events as readonly ThreadEvent[]);
  return (fold.messages as readonly LooseMessage[]).map(({ role, content, toolCalls = [] }) => [
    role,
    content ?? "",
    ...toolCalls.map(({ id, function: { name, arguments: args } }) => [id, name, args]),
  ]);
}

/** What has begun and not ended. */
function open(events: readonly LooseEvent[]): string[] {
  const parts = new Set<string>();
  for (const event of events) {
    const [, kind, edge] = /^(.*?)_(START|END|STARTED|FINISHED)$/.exec(event.type) ?? [];
    const part = `${kind} ${String(event["messageId"] ?? event["toolCallId"] ?? event["stepName"])}`;
    if (edge?.startsWith("START")) parts.add(part);
    else if (edge) expect(parts.delete(part)).toBe(true);
  }
  return [...parts];
}

describe.each(KINDS)("%s", (name, record, said) => {
  test("are the conversation that they tell, and nothing of them is unknown", async () => {
    const { events } = await piped(await record());
    expect(shown(events)).toEqual(said);
    expect(events.filter(({ type }) => type.startsWith("RUN_"))).toEqual([]);
    const unmapped = events.filter((event) => event["name"] === "unmapped").map(({ value }) => value);
    // The name is the server's, as which another stream cannot speak.
    expect(unmapped).toEqual(name === "events of AG-UI" ? [AG_UI[11]] : []);
    expect(events.filter((event) => String(event["name"]).startsWith("threadline."))).toEqual([]);
  });

  test("cut after each item are a beginning of it, with every part ended", async () => {
    const items = await record();
    const whole = JSON.stringify(said);
    const seen = new Set<string>();
    for (let count = 0; count <= items.length; count += 1) {
      const { events } = await piped(items.slice(0, count));
      // What an AG-UI agent leaves open is ended by the server.
      if (name !== "events of AG-UI") expect(open(events)).toEqual([]);
      const texts = (shown(events) as string[][]).filter(([role]) => role !== "tool").map(([, content]) => content!);
      for (const text of texts) expect(whole).toContain(JSON.stringify(text).slice(1, -1));
      seen.add(texts.join("|"));
    }
    expect(seen.size).toBeGreaterThan(3);
  });

  test("followed by an item of a later version, or of no meaning, go on", async () => {
    const items = await record();
    const odd = [{ type: "later.version", more: 1 }, { type: "later.version", more: 2 }, {}, null, "text", 5, [1]];
    for (const at of [1, 2, Math.ceil(items.length / 2), items.length]) {
      const { events } = await piped([...items.slice(0, at), ...(odd as object[]), ...items.slice(at)]);
      expect(shown(events)).toEqual(said);
      const unmapped = events.filter((event) => event["name"] === "unmapped").map(({ value }) => value as Item);
      expect(unmapped.filter(({ type }) => type === "later.version")).toEqual([{ type: "later.version", more: 1 }]);
    }
  });

  test("whose members have unexpected types never throw", async () => {
    const items = await record();
    for (const wrong of [undefined, null, 5, "x", [], {}, { toString: 5 }, 1n]) {
      for (const [at, item] of items.entries()) {
        if (at === 0 || (item as Item)["type"] === "error") continue;
        const members = Object.keys(item).filter((member) => member !== "type" && member !== "error");
        const changed = { ...item, ...Object.fromEntries(members.map((member) => [member, wrong])) };
        // A stream that says of itself that it has failed is believed.
        await piped([...items.slice(0, at), changed, ...items.slice(at + 1)]);
      }
    }
  });

  test("end with the signal: the source is cancelled, however long it is silent", async () => {
    const items = await record();
    for (const isIterable of [false, true]) {
      const run = new Pretended();
      let ended = 0;
      let at = 0;
      const half = Math.ceil(items.length / 2);
      const next = async () => {
        if (at < half) return { done: false as const, value: items[(at += 1) - 1]! };
        setTimeout(() => run.stop.abort(new Error("stopped")));
        return new Promise<never>(() => {});
      };
      const iterable = {
        [Symbol.asyncIterator]: () => ({
          next,
          return: async () => ((ended += 1), { done: true as const, value: undefined }),
        }),
      };
      const readable = new ReadableStream<object>({
        pull: async (controller) => controller.enqueue((await next()).value),
        cancel: () => void (ended += 1),
      });
      await expect(pipe(run, isIterable ? iterable : readable)).rejects.toThrow("stopped");
      expect(ended).toBe(1);
    }
  });
});

describe("an error in a stream", () => {
  const cause = new Error("overloaded");
  test.each<[string, readonly object[]]>([
    ["of UI chunks", [{ type: "start" }, { type: "error", errorText: "overloaded" }]],
    ["of a full stream", [{ type: "start" }, { type: "error", error: cause }]],
    ["of a full stream, as an object", [{ type: "error", error: { message: "overloaded" } }]],
    ["of a chat completion", [CHAT[0]!, { error: { message: "overloaded", code: 503 } }]],
    ["of a chat completion, at once", [{ error: { message: "overloaded" } }]],
    [
      "of a response",
      [RESPONSE[0]!, { type: "response.failed", response: { error: { code: "x", message: "overloaded" } } }],
    ],
    ["of a response, at once", [{ type: "error", code: "x", message: "overloaded", param: null, sequence_number: 0 }]],
    ["of AG-UI", [AG_UI[0]!, { type: "RUN_ERROR", message: "overloaded" }]],
  ])("%s is thrown with its message", async (name, items) => {
    const run = new Pretended();
    const error: unknown = await pipe(run, streamOf(items)).catch((error: unknown) => error);
    expect(error).toMatchObject({ message: "overloaded" });
    if (name === "of a full stream") expect(error).toBe(cause);
  });

  test("of a tool is its result", async () => {
    for (const version of [6, 7] as const) {
      for (const kind of ["chunks", "parts"] as const) {
        const items = await recorded(version, kind, () => Promise.reject(new Error("no network")));
        const { events } = await piped(items);
        const results = events.filter(({ type }) => type === "TOOL_CALL_RESULT").map(({ content }) => content);
        // A UI stream tells as much as its `onError` does.
        expect(results).toEqual([expect.stringMatching(kind === "parts" ? '"no network"' : /^\{"error":".+"\}$/)]);
      }
    }
  });

  test("of AI SDK streams: sources and files are kept", async () => {
    for (const version of [6, 7] as const) {
      for (const kind of ["chunks", "parts"] as const) {
        const { events } = await piped(await recorded(version, kind, hits));
        const kept = events
          .filter(({ type }) => type === "CUSTOM")
          .map(({ name, value }) => [name, (value as Item)["url"]]);
        expect(kept).toEqual([
          ["source-url", "https://a.example"],
          ["file", "data:text/plain;base64,eA=="],
        ]);
      }
    }
  });
});

test("an approval is a question, unless the application has decided", async () => {
  const call = { type: "tool-call", toolCallId: "m1", toolName: "mail", input: { to: "ann" } };
  for (const items of [
    [
      { type: "tool-input-available", toolCallId: "m1", toolName: "mail", input: { to: "ann" } },
      { type: "tool-approval-request", approvalId: "i0", toolCallId: "m0", isAutomatic: true },
      { type: "tool-approval-request", approvalId: "i1", toolCallId: "m1" },
    ],
    [
      call,
      { type: "tool-approval-request", approvalId: "i0", toolCall: { ...call, toolCallId: "m0" }, isAutomatic: true },
      { type: "tool-approval-request", approvalId: "i1", toolCall: call },
    ],
  ]) {
    const run = new Pretended();
    await expect(pipe(run, streamOf(items))).rejects.toThrow("interrupted");
    expect(run.asked).toEqual([{ id: "i1", reason: "tool_call", toolCallId: "m1" }]);
  }
  const run = new Pretended();
  const outcome = { type: "interrupt", interrupts: [{ id: "i", reason: "input_required", message: "Really?" }] };
  const asking = pipe(run, streamOf([AG_UI[0]!, { type: "RUN_FINISHED", threadId: "t", runId: "r", outcome }]));
  await expect(asking).rejects.toThrow("interrupted");
  expect(run.asked).toEqual(outcome.interrupts);
});

test("calls of the endpoint's own, of text, and without numbers", async () => {
  const item = (type: string, item: Item): Item => ({ type: `response.output_item.${type}`, output_index: 0, item });
  const mcp = { id: "mcp-1", type: "mcp_call", name: "look", arguments: "" };
  const custom = { id: "ct-1", type: "custom_tool_call", call_id: "call-2", name: "shell" };
  const { events } = await piped([
    item("added", mcp),
    { type: "response.mcp_call_arguments.delta", item_id: "mcp-1", delta: '{"a":1}' },
    item("done", { ...mcp, arguments: '{"a":1}', output: "found" }),
    item("added", { ...mcp, id: "mcp-2" }),
    item("done", { ...mcp, id: "mcp-2", arguments: "{}", error: { message: "away" } }),
    item("added", custom),
    { type: "response.custom_tool_call_input.delta", item_id: "ct-1", delta: "ls" },
    { type: "response.custom_tool_call_input.done", item_id: "ct-1", input: "ls -l" },
    item("done", { ...custom, input: "ls -l" }),
  ]);
  expect(shown(events)).toEqual([
    ["assistant", "", ["mcp-1", "look", '{"a":1}']],
    ["tool", "found"],
    ["assistant", "", ["mcp-2", "look", "{}"]],
    ["tool", '{"error":"away"}'],
    ["assistant", "", ["call-2", "shell", '"ls -l"']],
  ]);
  // Endpoints that number no calls: a new id begins a new call.
  const calls = [
    { id: "a", function: { name: "f", arguments: '{"x":' } },
    { function: { arguments: "1}" } },
    { id: "b", function: { name: "g", arguments: "{}" } },
  ];
  const chat = await piped(calls.map((call) => ({ choices: [{ index: 0, delta: { tool_calls: [call] } }] })));
  expect((shown(chat.events) as unknown[][]).flatMap(([, , ...calls]) => calls)).toEqual([
    ["a", "f", '{"x":1}'],
    ["b", "g", "{}"],
  ]);
});

test("what is too large for an event, or no JSON, is named", async () => {
  const circular: Record<string, unknown> = { type: "odd" };
  circular["self"] = circular;
  const large = { type: "data-large", data: "x".repeat(2_000_000) };
  const { events } = await piped([{ type: "start-step" }, circular, large]);
  expect(events.filter(({ type }) => type === "CUSTOM")).toEqual([
    { type: "CUSTOM", name: "unmapped", value: { type: "odd", truncated: true } },
    { type: "CUSTOM", name: "large", value: { truncated: true } },
  ]);
});

test("a stream of an unknown kind is refused at its first item", async () => {
  const run = new Pretended();
  for (const item of [{}, { type: "FOO" }, { type: "foo" }, { text: "x" }, null, "text", new Uint8Array(2), [1]]) {
    const refused: unknown = await pipe(run, streamOf([item as object])).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(ConfigError);
  }
  for (const wrong of [undefined, null, [], {}, "text"]) {
    await expect(pipe(run, wrong as unknown as Pipeable)).rejects.toBeInstanceOf(ConfigError);
  }
  expect(run.events).toEqual([]);
  // Nothing at all is nothing.
  await pipe(run, streamOf([]));
  expect(run.events).toEqual([]);
});
