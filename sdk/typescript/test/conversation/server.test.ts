import { expect, test } from "vitest";
import { Conversation } from "../../src/conversation/index.js";
import type { MessagesPage, ThreadEvent, ThreadState } from "../../src/types.js";
import { server, useServer } from "../harness/served.js";
import { Random } from "../harness/random.js";
import { type Event, log, makeThread } from "../harness/writer.js";
import { run } from "./generate.js";

const THREADS = 8;
const RUNS = 4;
const LOOKS = 10;

useServer();

async function shown(threadId: string, at: number): Promise<MessagesPage & ThreadState> {
  const path = `/v1/threads/${threadId}`;
  const [messages, state] = await Promise.all([
    server.request<MessagesPage>("GET", `${path}/messages?at=${at}`),
    server.request<ThreadState>("GET", `${path}/state?at=${at}`),
  ]);
  return { ...messages, ...state };
}

function said(conversation: Conversation): object {
  const { messages, state, interrupts, pendingToolCallIds } = conversation;
  return { messages, state, interrupts, pendingToolCallIds };
}

/** Any JSON values, including lone surrogates. */
function plain(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value));
}

test("the fold equals the server's after any event, from the start and from a point between two runs", async () => {
  const random = new Random();
  for (let thread = 0; thread < THREADS; thread += 1) {
    const threadId = await makeThread(server);
    const begins: number[] = [];
    let tail = 0;
    for (let number = 0; number < RUNS; number += 1) {
      const events = run(random, threadId, `r${number}`);
      begins.push(tail);
      await server.request("PUT", `/v1/threads/${threadId}/runs/r${number}`, { body: events });
      tail += events.length;
    }
    const events: Event[] = (await log(server, threadId)).map(({ event }) => event);
    expect(events.length).toBe(tail);
    for (let look = 0; look < LOOKS; look += 1) {
      const at = look === 0 ? tail : random.below(tail + 1);
      const seen = await shown(threadId, at);
      const what = `seed ${random.seed}, thread ${thread}, at ${at}`;
      const { messages, state, interrupts, pendingToolCallIds, skippedDeltas, skippedNumbers } = seen;
      const expected = { messages, state, interrupts, pendingToolCallIds };
      const whole = new Conversation();
      whole.apply(events.slice(0, at) as ThreadEvent[]);
      expect(plain(said(whole)), what).toEqual(expected);
      expect([whole.skippedDeltas, whole.skippedNumbers], what).toEqual([skippedDeltas, skippedNumbers]);
      const from = random.pick(begins.filter((begin) => begin <= at));
      const later = new Conversation(await shown(threadId, from));
      later.apply(events.slice(from, at) as ThreadEvent[]);
      // THINKING_* events have no ids: they are counted from the start of a fold.
      if (!/"thinking-/.test(JSON.stringify(events.slice(0, at)) + JSON.stringify(messages))) {
        expect(plain(said(later)), `${what}, from ${from}`).toEqual(expected);
      }
    }
  }
});

/**
 * JSON.parse reads such a number as Infinity, while the server cannot read it at all: both return null, and keep the other
 * values.
 */
test("a number out of the range of a double affects only itself, in the client and on the server", async () => {
  const threadId = await makeThread(server);
  // As text, since JSON.stringify cannot produce this.
  const put = await fetch(`${server.url}/v1/threads/${threadId}/runs/r`, {
    method: "PUT",
    headers: { "Content-Type": "application/x-ndjson" },
    body: [
      `{"type":"STATE_SNAPSHOT","snapshot":{"plan":["a",1e400],"n":1}}`,
      `{"type":"STATE_DELTA","delta":[{"op":"add","path":"/plan/0","value":-1e999}]}`,
      `{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"u","role":"user","content":"hi","x":1e400}]}`,
    ].join("\n"),
  });
  expect(put.status).toBe(201);
  const events: Event[] = (await log(server, threadId)).map(({ event }) => event);
  expect(events.length).toBe(4);
  const { messages, state, skippedNumbers, skippedDeltas } = await shown(threadId, 4);
  const conversation = new Conversation();
  conversation.apply(events as ThreadEvent[]);
  expect(conversation.state).toEqual({ plan: [null, "a", null], n: 1 });
  expect(conversation.messages).toEqual([{ id: "u", role: "user", content: "hi", x: null }]);
  expect({ messages: conversation.messages, state: conversation.state }).toEqual({ messages, state });
  expect([conversation.skippedNumbers, conversation.skippedDeltas]).toEqual([3, 0]);
  expect([skippedNumbers, skippedDeltas]).toEqual([3, 0]);
});
