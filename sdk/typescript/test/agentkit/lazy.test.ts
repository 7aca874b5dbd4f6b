// When a thread is made, and when it is not.

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

describe("a thread is made with the first thing that is saved in it", () => {
  test("a run that ends before leaves none, and asks nothing where it makes up the id", async () => {
    const { asked, fetch } = counting();
    const before = await threads();
    const { history } = program({ fetch });
    const { threadId } = await history.createThread({ state: stateOf(), input: "hello", network: other() as never });
    await history.createThread({ state: stateOf("not yet"), input: "hello", network: other() as never });
    expect(threadId).toMatch(/^[0-9a-f]{32}$/);
    expect(asked).toEqual(["GET /v1/threads/not%20yet"]);
    expect(await threads()).toBe(before);
  });

  test("a model that throws leaves the message", async () => {
    model.answer = () => ({ error: "out of order" });
    const state = stateOf();
    await expect(program().network.run("hello?", { state })).rejects.toThrow("out of order");
    expect(texts(await restored(state.threadId!))).toEqual(["user: hello?"]);
  });

  test("one that is deleted while the network is at work is not made again", async () => {
    const state = stateOf();
    model.answer = async () => {
      await client().thread(state.threadId!).delete();
      return { text: "too late" };
    };
    await expect(program().network.run("hello?", { state })).rejects.toMatchObject({ slug: "thread-not-found" });
    await expect(client().thread(state.threadId!).get()).rejects.toMatchObject({ slug: "thread-not-found" });
  });

  test("an agent that begins with a stream has it, too", async () => {
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
  /** AgentKit makes up the id itself, and asks for nothing to be made. */
  const network = (more = {}) => {
    const { createThread: _, ...history } = threadlineHistory<Data>({ url: server.url, apiKey: API_KEY, ...more });
    const agent = createAgent<Data>({ name: "helper", system: "s", model: model.adapter });
    const router = ({ callCount }: { callCount: number }) => (callCount === 0 ? agent : undefined);
    return { history, network: createNetwork<Data>({ name: "own ids", agents: [agent], history, router }) };
  };

  test.each([false, true])("has its thread made (streamed: %s)", async (streamed) => {
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
    // The newest first: those of the second network, then what the first one said, at the end or while it was at work.
    expect(kinds).toEqual(["ak:r:", "ak:u:", streamed ? "ak:n:" : "ak:r:", "ak:u:"]);
  });

  test.each([false, true])("keeps what an agent alone is asked, once each time (streamed: %s)", async (streamed) => {
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

  test("keeps an answer of an agent alone that is asked nothing", async () => {
    const { history } = network();
    const { lifecycle } = history;
    const agent = createAgent<Data>({ name: "solo", system: "s", model: model.adapter, history, lifecycle });
    const state = stateOf();
    await agent.run("", { state });
    expect(texts(await restored(state.threadId!))).toEqual(["solo: reply 1"]);
  });

  test("does not get into a thread of another user", async () => {
    await network().network.run("mine", { state: stateOf("own ids of ann") });
    model.asked.length = 0;
    const run = network().network.run("yours?", { state: stateOf("own ids of ann", { userId: "bob" }) });
    await expect(run).rejects.toMatchObject({ slug: "thread-exists" });
    expect(model.asked).toHaveLength(0);
  });
});
