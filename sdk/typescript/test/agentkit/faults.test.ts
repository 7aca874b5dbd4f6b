import { AgentResult } from "@inngest/agent-kit";
import { describe, expect, test } from "vitest";
import type { NewEvent } from "../../src/index.js";
import { Proxy } from "../harness/proxy.js";
import { until } from "../harness/until.js";
import {
  client,
  type Data,
  kept,
  model,
  program,
  replies,
  restored,
  server,
  stateOf,
  texts,
  useServer,
} from "./setup.js";

useServer();

test("every response to a write is lost once: everything is stored once", async () => {
  const lost = new Set<string>();
  const lossy: typeof fetch = async (url, init) => {
    const response = await fetch(url, init);
    const request = `${init?.method} ${String(url)}`;
    if (init?.method === "GET" || lost.has(request)) return response;
    lost.add(request);
    // The server has stored it at this point.
    await response.arrayBuffer();
    throw new TypeError("the connection broke");
  };
  const { network, history } = program({ fetch: lossy, persistState: true });
  const state = stateOf();
  await network.run("one", { state });
  await network.run("two", { state: stateOf(state.threadId!), streaming: { publish: history.publish } });
  expect(lost.size).toBeGreaterThan(5);
  expect(texts(await restored(state.threadId!))).toEqual([
    "user: one",
    "helper: reply 1",
    "user: two",
    "helper: reply 2",
  ]);
  const { messages } = await client().thread(state.threadId!).messages();
  expect(messages.map(({ content }) => content)).toEqual(["one", "reply 1", "two", "reply 2"]);
  expect((await client().threads.list()).threads).toHaveLength(1);
});

test("the server is killed and restarted while the model is thinking", async () => {
  model.answer = async () => {
    await server.restart();
    return { text: "reply" };
  };
  const { state } = await program().network.run("one", { state: stateOf() });
  expect(texts(await restored(state.threadId!))).toEqual(["user: one", "helper: reply"]);
});

test("the error after all attempts names the unreachable server", async () => {
  const proxy = await Proxy.start({ port: 9 });
  proxy.refuse = true;
  const run = program({ url: proxy.url, timeout: 300 }).network.run("one", { state: stateOf("away") });
  await expect(run).rejects.toMatchObject({ name: "ConnectionError", message: expect.stringContaining(proxy.url) });
  expect(model.asked).toHaveLength(0);
  proxy.end();
});

test("without an owner the error names the missing option", async () => {
  const run = program().network.run("one", { state: stateOf(undefined, {}) });
  await expect(run).rejects.toThrow("the user is missing");
});

describe("concurrent runs", () => {
  test("networks of two processes: everything is saved, and nothing is interleaved", async () => {
    await Promise.all(
      ["one", "two", "three"].map((input) => program().network.run(input, { state: stateOf("rivals") })),
    );
    const found = await restored("rivals");
    expect(
      texts(found)
        .filter((text) => text.startsWith("user"))
        .sort(),
    ).toEqual(["user: one", "user: three", "user: two"]);
    expect(replies(found)).toHaveLength(3);
  });

  test("saving waits for a run of another producer", async () => {
    const thread = client().thread("busy");
    await client().threads.create({ threadId: "busy" });
    let end = () => {};
    const other = thread.run({ runId: "other" }, () => new Promise<void>((resolve) => (end = resolve)));
    await until("the other run", async () => (await thread.get()).activeRun);
    let puts = 0;
    const counting: typeof fetch = (url, init) => {
      if (init?.method === "PUT") puts += 1;
      return fetch(url, init);
    };
    const run = program({ fetch: counting }).network.run("one", { state: stateOf("busy") });
    await until("an append that waits", () => puts > 0);
    expect(model.asked).toHaveLength(0);
    end();
    await Promise.all([other, run]);
    expect(texts(await restored("busy"))).toEqual(["user: one", "helper: reply 1"]);
  });
});

test("2,000 messages are read back exactly", async () => {
  const threadId = "long";
  const { history, network } = program();
  const state = stateOf(threadId);
  const result = (n: number) =>
    new AgentResult(
      "a",
      [{ type: "text", role: "assistant", content: `message ${n}`, stop_reason: "stop" }],
      [],
      new Date(1_700_000_000_000 + n),
      [{ type: "text", role: "system", content: "You help." }],
      [],
      JSON.stringify({ n }),
      `r${n}`,
    );
  await history.createThread({ state, input: "" });
  const all = Array.from({ length: 2_000 }, (_, n) => result(n));
  for (let at = 0; at < all.length; at += 100) {
    const newResults = all.slice(at, at + 100);
    await history.appendResults({ threadId, newResults, state, input: "", network: network as never });
  }
  expect((await restored(threadId)).map(kept)).toEqual(all.map(kept));
});

test("a run of another producer is a turn as well", async () => {
  const threadId = "doors";
  await client().threads.create({ threadId });
  const put = (runId: string, content: string, events: NewEvent[]) => {
    const run = { threadId, runId };
    const messages = [{ id: `${runId}-u`, role: "user", content } as const];
    const started: NewEvent = { type: "RUN_STARTED", ...run, input: { ...run, messages } };
    return client()
      .thread(threadId)
      .putRun(runId, [started, ...events, { type: "RUN_FINISHED", ...run }]);
  };
  await put("elsewhere", "from a page", [
    { type: "TEXT_MESSAGE_START", messageId: "m1", role: "assistant" },
    { type: "TEXT_MESSAGE_CONTENT", messageId: "m1", delta: "Let me " },
    { type: "TEXT_MESSAGE_CONTENT", messageId: "m1", delta: "see." },
    { type: "TEXT_MESSAGE_END", messageId: "m1" },
    { type: "TOOL_CALL_START", toolCallId: "c1", toolCallName: "weather", parentMessageId: "m1" },
    { type: "TOOL_CALL_ARGS", toolCallId: "c1", delta: '{"city":' },
    { type: "TOOL_CALL_ARGS", toolCallId: "c1", delta: '"Rom"}' },
    { type: "TOOL_CALL_END", toolCallId: "c1" },
    { type: "TOOL_CALL_START", toolCallId: "c2", toolCallName: "never answered", parentMessageId: "m1" },
    { type: "TOOL_CALL_END", toolCallId: "c2" },
    { type: "TOOL_CALL_RESULT", messageId: "t1", toolCallId: "c1", content: "sunny" },
    { type: "TEXT_MESSAGE_CHUNK", messageId: "m2", role: "assistant", delta: "Sun" },
    { type: "TEXT_MESSAGE_CHUNK", delta: "ny." },
  ]);
  const { state } = await program().network.run("and now?", { state: stateOf(threadId) });
  expect(texts(state.results)).toEqual([
    "user: from a page",
    "assistant: Let me see.|tool_call",
    "assistant: Sunny.",
    "user: and now?",
    "helper: reply 1",
  ]);
  const said = model.asked[0]!.messages.map(({ role, content }) => `${role}: ${String(content)}`);
  expect(said).toEqual([
    "system: You help.",
    "user: and now?",
    "user: from a page",
    "assistant: Let me see.",
    "assistant: null",
    "tool: sunny",
    "assistant: Sunny.",
    "user: and now?",
  ]);
});

describe("state that is kept", () => {
  const remember = (...changes: [string, unknown][]) => {
    model.answer = () => {
      const change = changes[model.asked.length - 1];
      return change ? { calls: [{ name: "remember", args: { key: change[0], value: change[1] } }] } : { text: "done" };
    };
    model.asked.length = 0;
  };
  const initial = (): Data => ({ userId: "ann", plan: "none" });
  const run = async (threadId: string, input: string) => {
    const { network } = program({ persistState: true });
    return (await network.run(input, { state: stateOf(threadId, initial()) })).state;
  };

  test("both stores continue with their stored values", async () => {
    remember(["plan", { steps: [1, 2] }], ["a/b~c", 1]);
    await run("stores", "remember");
    remember(["a/b~c", null]);
    const second = await run("stores", "forget");
    expect(second.data).toEqual({ userId: "ann", plan: { steps: [1, 2] }, "a/b~c": null });
    expect(second.kv.get("plan")).toEqual({ steps: [1, 2] });
    expect(second.kv.has("a/b~c")).toBe(false);
    remember();
    const third = await run("stores", "and now?");
    expect(third.kv.all()).toEqual({ userId: "ann", plan: { steps: [1, 2] } });
    const { events } = await client().thread("stores").events();
    const states = events.filter(({ event }) => event.type.startsWith("STATE_")).map(({ event }) => event);
    expect(states).toEqual([
      {
        type: "STATE_SNAPSHOT",
        snapshot: {
          data: { userId: "ann", plan: { steps: [1, 2] }, "a/b~c": 1 },
          kv: { userId: "ann", plan: { steps: [1, 2] }, "a/b~c": 1 },
        },
      },
      { type: "STATE_DELTA", delta: [{ op: "add", path: "/data/a~1b~0c", value: null }] },
      { type: "STATE_DELTA", delta: [{ op: "remove", path: "/kv/a~1b~0c" }] },
    ]);
  });

  test("a state written by another client cannot change the user", async () => {
    remember(["plan", "gold"]);
    await run("poisoned", "begin");
    const poison = JSON.parse(
      '{"data":{"userId":"bob","role":"admin","__proto__":{"isAdmin":true}},"kv":{"userId":"bob","role":"admin"}}',
    ) as object;
    await client()
      .thread("poisoned")
      .putRun("poison", [{ type: "STATE_SNAPSHOT", snapshot: poison }]);
    remember();
    const { network } = program({ persistState: { keep: ["role"] } });
    const state = stateOf("poisoned", { ...initial(), role: "guest" });
    const { data, kv } = (await network.run("who am I?", { state })).state;
    expect({ ...data }).toMatchObject({ userId: "ann", role: "guest" });
    expect((data as { isAdmin?: boolean }).isAdmin).toBeUndefined();
    expect([kv.get("userId"), kv.get("role")]).toEqual(["ann", "guest"]);
  });

  test("without the option no state is stored", async () => {
    const { state } = await program().network.run("hi", { state: stateOf(undefined, { userId: "ann", secret: 1 }) });
    expect((await client().thread(state.threadId!).state()).state).toEqual({});
  });

  test("networks that change different keys at once keep both changes", async () => {
    remember(["start", 1]);
    await run("state rivals", "begin");
    const begun = new Set<string>();
    model.answer = async ({ messages }) => {
      // The new message follows the system message.
      const key = String(messages[1]?.content);
      if (begun.has(key)) return { text: "done" };
      begun.add(key);
      await until("both networks", () => begun.size === 2);
      return { calls: [{ name: "remember", args: { key, value: 1 } }] };
    };
    await Promise.all([run("state rivals", "left"), run("state rivals", "right")]);
    const { state } = await client().thread("state rivals").state();
    expect((state as { data: Data }).data).toMatchObject({ start: 1, left: 1, right: 1 });
  });
});
