// Tests when a thread is created, and when it is not.

import { createAgent, createNetwork } from "@inngest/agent-kit";
import { describe, expect, test } from "vitest";
import { threadlineHistory } from "../../src/agentkit/index.js";
import { API_KEY, client, type Data, model, program, restored, server, stateOf, texts, useServer } from "./setup.js";

useServer();

/** Counts the requests of a history. */
function counting() {
  const asked: string[] = [];
  const counted: typeof fetch = (url, init) => {
    asked.push(`${init?.method} ${new URL(String(url)).pathname}`);
    return fetch(url, init);
  };
  return { asked, fetch: counted };
}

const threads = async () => (await client().threads.list({ limit: 500 })).threads.length;

describe("a thread is created when the first data is saved", () => {
  test("a run that ends before that creates none, and sends no request if it generates the id", async () => {
    const { asked, fetch } = counting();
    const before = await threads();
    const { history } = program({ fetch });
    const { threadId } = await history.createThread({ state: stateOf(), input: "hello", network: other() as never });
    await history.createThread({ state: stateOf("not yet"), input: "hello", network: other() as never });
    expect(threadId).toMatch(/^[0-9a-f]{32}$/);
    expect(asked).toEqual(["GET /v1/threads/not%20yet"]);
    expect(await threads()).toBe(before);
  });

  test("after an error of the model the message is stored", async () => {
    model.answer = () => ({ error: "out of order" });
    const state = stateOf();
    await expect(program().network.run("hello?", { state })).rejects.toThrow("out of order");
    expect(texts(await restored(state.threadId!))).toEqual(["user: hello?"]);
  });

  test("a thread deleted while the network is running is not created again", async () => {
    const state = stateOf();
    model.answer = async () => {
      await client().thread(state.threadId!).delete();
      return { text: "too late" };
    };
    await expect(program().network.run("hello?", { state })).rejects.toMatchObject({ slug: "thread-not-found" });
    await expect(client().thread(state.threadId!).get()).rejects.toMatchObject({ slug: "thread-not-found" });
  });

  test("an agent that starts with a stream has a thread, too", async () => {
    const { history } = program();
    const lifecycle = history.lifecycle;
    const agent = createAgent<Data>({ name: "solo", system: "s", model: model.adapter, history, lifecycle });
    await agent.run("", { state: stateOf("silent user"), streaming: { publish: history.publish } });
    expect(texts(await restored("silent user"))).toEqual(["solo: reply 1"]);
  });
});

function other() {
  const agent = createAgent<Data>({ name: "other", system: "s", model: model.adapter });
  return createNetwork<Data>({ name: "n", agents: [agent], history: program().history });
}

describe("a history without createThread", () => {
  /** AgentKit generates the id itself, and calls no hook to create the thread. */
  const network = (more = {}) => {
    const { createThread: _, ...history } = threadlineHistory<Data>({ url: server.url, apiKey: API_KEY, ...more });
    const agent = createAgent<Data>({ name: "helper", system: "s", model: model.adapter });
    const router = ({ callCount }: { callCount: number }) => (callCount === 0 ? agent : undefined);
    return { history, network: createNetwork<Data>({ name: "own ids", agents: [agent], history, router }) };
  };

  test.each([false, true])("creates its thread (streamed: %s)", async (streamed) => {
    const { history, network: own } = network({ title: ({ input }: { input: string }) => `About ${input}` });
    const state = stateOf();
    const options = streamed ? { streaming: { publish: history.publish } } : {};
    await own.run("one", { state, ...options });
    expect(state.threadId).toMatch(/^[0-9a-f]{8}-/);
    const thread = client().thread(state.threadId!);
    expect(await thread.get()).toMatchObject({ name: "About one", agentId: "own ids", userId: "ann" });
    await network().network.run("two", { state: stateOf(state.threadId!) });
    expect(texts(await restored(state.threadId!))).toEqual([
      "user: one",
      "helper: reply 1",
      "user: two",
      "helper: reply 2",
    ]);
    const kinds = (await thread.runs()).runs.map(({ runId }) => runId.slice(0, 5));
    // The newest first: runs of the second network, then the answer of the first one, saved at the end or while it was
    // running.
    expect(kinds).toEqual(["ak:r:", "ak:u:", streamed ? "ak:n:" : "ak:r:", "ak:u:"]);
  });

  test.each([false, true])("keeps each message to an agent without a network once (streamed: %s)", async (streamed) => {
    const { history } = network();
    const { lifecycle, publish } = history;
    const agent = createAgent<Data>({ name: "solo", system: "s", model: model.adapter, history, lifecycle });
    const state = stateOf();
    const options = { state, ...(streamed && { streaming: { publish } }) };
    await agent.run("solo no create", options);
    await agent.run("once more", options);
    await agent.run("once more", { ...options, state: stateOf(state.threadId!) });
    const found = await restored(state.threadId!);
    expect(texts(found)).toEqual([
      "user: solo no create",
      "solo: reply 1",
      "user: once more",
      "solo: reply 2",
      "user: once more",
      "solo: reply 3",
    ]);
    const times = found.map(({ createdAt }) => createdAt.getTime());
    expect(times).toEqual([...times].sort((one, other) => one - other));
  });

  test("keeps the answer of an agent without a network to an empty message", async () => {
    const { history } = network();
    const { lifecycle } = history;
    const agent = createAgent<Data>({ name: "solo", system: "s", model: model.adapter, history, lifecycle });
    const state = stateOf();
    await agent.run("", { state });
    expect(texts(await restored(state.threadId!))).toEqual(["solo: reply 1"]);
  });

  test("cannot access a thread of another user", async () => {
    await network().network.run("mine", { state: stateOf("own ids of ann") });
    model.asked.length = 0;
    const run = network().network.run("yours?", { state: stateOf("own ids of ann", { userId: "bob" }) });
    await expect(run).rejects.toMatchObject({ slug: "thread-exists" });
    expect(model.asked).toHaveLength(0);
  });
});
