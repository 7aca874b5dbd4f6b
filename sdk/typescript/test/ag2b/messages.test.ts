import { afterAll, beforeAll, expect, test } from "vitest";
import { fromMessages, toMessages } from "../../src/ag2b/messages.js";
import type { AgentEvent, AssistantMessage, ChatMessage } from "../../src/ag2b/types.js";
import { AnswerWriter } from "../../src/ag2b/writer.js";
import { type AgUiEvent, Threadline } from "../../src/index.js";
import { Random } from "../harness/random.js";
import { Server } from "../harness/server.js";

let server: Server;
let client: Threadline;

beforeAll(async () => {
  server = await Server.start();
  client = new Threadline({ url: server.url });
});
afterAll(() => server.end());

const texts = [
  "",
  " \n\t",
  "Hello",
  'Zürich 💬 is "nice"\\n',
  "  kept\nverbatim  ",
  "日本語",
  "\u0000\u2028",
  "x".repeat(300),
];

function value(random: Random, depth = 2): unknown {
  const plain = [null, true, false, 0, -1.5e-7, 2 ** 53, "", 'é"', 1e21];
  if (depth === 0 || random.chance(0.6)) return random.pick(plain);
  const inner = random.list(3, () => value(random, depth - 1));
  return random.chance(0.5)
    ? inner
    : Object.fromEntries(inner.map((each, index) => [`${random.pick(["b", "a", "__proto__"])}${index}`, each]));
}

function answer(random: Random, call: () => string): AssistantMessage {
  const said: Record<string, unknown> = { role: "assistant" };
  if (random.chance(0.8)) said["content"] = random.pick([...texts, undefined]);
  if (random.chance(0.4)) said["reasoning"] = random.pick(texts);
  if (random.chance(0.5)) {
    const calls = random.list(3, () => ({
      id: call(),
      name: random.pick(["find", "", "a b"]),
      arguments: { z: 1, a: value(random) },
    }));
    said["calls"] = calls;
  }
  if (random.chance(0.3)) said["metadata"] = random.pick([{}, { signature: "abc==", deep: value(random) }, undefined]);
  return said as unknown as AssistantMessage;
}

function conversation(random: Random): ChatMessage[] {
  const messages: ChatMessage[] = [];
  let calls = 0;
  for (let turn = 0; turn < 4; turn += 1) {
    messages.push({ role: "user", content: random.pick(texts) });
    for (const said of random.list(3, () => answer(random, () => `call-${random.seed}-${(calls += 1)}`))) {
      messages.push(said);
      for (const { id } of said.calls ?? [])
        messages.push({ role: "tool", id, content: JSON.stringify(value(random)) });
    }
  }
  return messages;
}

/** The events that an agent's loop streams for an answer; it may stop anywhere. */
function deltas(random: Random, { content = "", reasoning = "", calls = [] }: AssistantMessage): AgentEvent[] {
  const parts = calls.map(({ id, name, arguments: given }, index) =>
    random.cut(JSON.stringify(given)).map((argumentsDelta, at) => ({
      type: "agent_tool_call_delta" as const,
      index,
      ...(at === 0 && { id, name }),
      argumentsDelta,
    })),
  );
  const mixed: AgentEvent[] = [];
  while (parts.some((each) => each.length > 0)) {
    const next = random.pick(parts).shift();
    if (next) mixed.push(next);
  }
  const all = [
    ...random.cut(reasoning).map((delta) => ({ type: "agent_reasoning_delta" as const, delta })),
    ...random.cut(content).map((delta) => ({ type: "agent_content_delta" as const, delta })),
    ...mixed,
  ];
  return random.chance(0.3) ? all.slice(0, random.below(all.length + 1)) : all;
}

const json = (value: unknown) => JSON.parse(JSON.stringify(value)) as unknown;

async function readBack(threadId: string): Promise<unknown> {
  const { messages } = await client.thread(threadId).messages();
  return fromMessages(messages).map(({ message }) => message);
}

test("a conversation is restored exactly, saved or streamed, wherever the stream was cut", async () => {
  const first = new Random();
  for (let seed = first.seed; seed < first.seed + 40; seed += 1) {
    const random = new Random(seed);
    const messages = conversation(random);
    const whole = client.thread((await client.threads.create()).threadId);
    const list = messages.flatMap((message, index) => toMessages(message, `m${index}`));
    const run = { threadId: whole.threadId, runId: "whole" };
    await whole.putRun(run.runId, [{ type: "RUN_STARTED", ...run, input: { ...run, messages: list } }]);
    expect(await readBack(whole.threadId), `THREADLINE_SEED=${seed}`).toEqual(json(messages));

    const streamed = client.thread((await client.threads.create()).threadId);
    const events: AgUiEvent[] = [];
    const gone = new Set<ChatMessage>();
    messages.forEach((message, index) => {
      const id = `m${index}`;
      if (message.role === "tool") {
        events.push({ type: "TOOL_CALL_RESULT", messageId: id, toolCallId: message.id, content: message.content });
      } else if (message.role === "user") {
        events.push({ type: "TEXT_MESSAGE_START", messageId: id, role: "user" });
        if (message.content) events.push({ type: "TEXT_MESSAGE_CONTENT", messageId: id, delta: message.content });
        events.push({ type: "TEXT_MESSAGE_END", messageId: id });
      } else {
        if (random.chance(0.2)) {
          // A partial answer is not in the history.
          const lost = new AnswerWriter(`lost${index}`);
          events.push(...deltas(random, message).flatMap((delta) => lost.delta(delta)), ...lost.drop());
          gone.add(message);
          return;
        }
        const writer = new AnswerWriter(id);
        events.push(...deltas(random, message).flatMap((delta) => writer.delta(delta)), ...writer.complete(message));
      }
    });
    await streamed.putRun("streamed", events);
    const kept = messages.filter((message) => !gone.has(message));
    expect(await readBack(streamed.threadId), `THREADLINE_SEED=${seed}`).toEqual(json(kept));
  }
});

test("other readers receive AG-UI messages", async () => {
  const thread = client.thread((await client.threads.create()).threadId);
  const message: AssistantMessage = {
    role: "assistant",
    reasoning: "Let me see",
    content: "Sunny.",
    calls: [{ id: "c", name: "weather", arguments: { city: "Bern" } }],
    metadata: { reasoningSignature: "sig" },
  };
  await thread.putRun("r", new AnswerWriter("m").complete(message));
  expect((await thread.messages()).messages).toEqual([
    { id: "m:reasoning", role: "reasoning", content: "Let me see" },
    {
      id: "m",
      role: "assistant",
      content: "Sunny.",
      toolCalls: [{ id: "c", type: "function", function: { name: "weather", arguments: '{"city":"Bern"}' } }],
      metadata: { ag2b: '{"metadata":{"reasoningSignature":"sig"}}' },
    },
  ]);
});

test("messages of other producers are read", () => {
  const read = fromMessages([
    { id: "s", role: "system", content: "Be brief" },
    {
      id: "u",
      role: "user",
      content: [
        { type: "text", text: "Look " },
        { type: "document", source: { type: "url", value: "https://example.com" } },
        { type: "text", text: "here" },
      ],
    },
    {
      id: "a",
      role: "assistant",
      toolCalls: [{ id: "c", type: "function", function: { name: "f", arguments: '{"cut' } }],
    },
    { id: "t", role: "tool", toolCallId: "c", content: "{}" },
    { id: "x", role: "activity", activityType: "plan", content: {} },
  ]);
  expect(read.map(({ from, message }) => ({ id: from.at(-1)!.id, message }))).toEqual([
    { id: "u", message: { role: "user", content: "Look here" } },
    { id: "a", message: { role: "assistant", calls: [{ id: "c", name: "f", arguments: {} }] } },
    { id: "t", message: { role: "tool", id: "c", content: "{}" } },
  ]);
});
