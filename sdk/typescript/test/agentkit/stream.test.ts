import { createAgent } from "@inngest/agent-kit";
import { describe, expect, test, vi } from "vitest";
import { threadlineHistory } from "../../src/agentkit/index.js";
import { until } from "../harness/until.js";
import {
  API_KEY,
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

async function log(threadId: string) {
  const { events } = await client().thread(threadId).events();
  return events.map(({ event, runId }) => ({ runId, event }));
}

test("other readers see that a network is running, its output, and its end", async () => {
  const { history, network } = program();
  const thread = client().thread("watched");
  const seen: unknown[] = [];
  model.answer = async () => {
    const run = (await thread.get()).activeRun;
    seen.push(run && { status: run.status, agentId: run.agentId });
    return model.asked.length === 1
      ? { text: "Let me see.", calls: [{ name: "weather", args: { city: "Rom" } }] }
      : { text: "Sunny." };
  };
  const { state } = await network.run("How is it?", {
    state: stateOf("watched"),
    streaming: { publish: history.publish, simulateChunking: true },
  });
  expect(seen).toEqual(Array(2).fill({ status: "running", agentId: "support" }));
  expect((await thread.get()).activeRun).toBeNull();
  const { messages, pendingToolCallIds } = await thread.messages();
  const [one, two] = replies(state.results);
  expect(messages).toMatchObject([
    { role: "user", content: "How is it?" },
    {
      id: one!.id,
      content: "Let me see.",
      toolCalls: [{ function: { name: "weather", arguments: '{"city":"Rom"}' } }],
    },
    { role: "tool", content: '{"city":"Rom","sunny":true,"degrees":0.30000000000000004}' },
    { id: two!.id, content: "Sunny." },
  ]);
  expect(pendingToolCallIds).toEqual([]);
  expect(replies(await restored("watched")).map(kept)).toEqual(replies(state.results).map(kept));
  const { runs } = await thread.runs();
  expect(runs.map(({ status }) => status)).toEqual(["finished", "finished"]);
  const live = (await log("watched")).filter(({ runId }) => runId === runs[0]!.runId).map(({ event }) => event.type);
  expect(live[0]).toBe("RUN_STARTED");
  expect(live.at(-1)).toBe("RUN_FINISHED");
});

test("streamed output arrives while the network is running", async () => {
  const { history, network } = program();
  model.answer = async () => {
    if (model.asked.length === 2) {
      const { messages } = await client().thread("halfway").messages();
      expect(messages.map(({ content }) => content)).toContain("first part");
    }
    return model.asked.length === 1
      ? { text: "first part", calls: [{ name: "weather", args: { city: "Rom" } }] }
      : { text: "second part" };
  };
  await network.run("go", { state: stateOf("halfway"), streaming: { publish: history.publish } });
  expect(model.asked).toHaveLength(2);
});

test("the run of a failed network ends as failed, and the next network continues", async () => {
  const { history, network } = program();
  model.answer = () => ({ error: "out of order" });
  const streaming = { publish: history.publish };
  await expect(network.run("hello?", { state: stateOf("bad"), streaming })).rejects.toThrow("out of order");
  const [run] = (await client().thread("bad").runs()).runs;
  expect(run).toMatchObject({ status: "error", errorMessage: expect.stringContaining("out of order") });
  model.answer = () => ({ text: "back" });
  await network.run("again", { state: stateOf("bad"), streaming });
  expect(texts(await restored("bad"))).toEqual(["user: hello?", "user: again", "helper: back"]);
});

test("an agent without a network", async () => {
  const history = threadlineHistory<Data>({ url: server.url, apiKey: API_KEY });
  const agent = createAgent<Data>({
    name: "solo",
    system: "s",
    model: model.adapter,
    history,
    lifecycle: history.lifecycle,
  });
  for (const input of ["one", "two"]) {
    await agent.run(input, { state: stateOf("solo streams"), streaming: { publish: history.publish } });
  }
  const { messages } = await client().thread("solo streams").messages();
  expect(messages.map(({ content }) => content)).toEqual(["one", "reply 1", "two", "reply 2"]);
  expect(texts(await restored("solo streams"))).toEqual(["user: one", "solo: reply 1", "user: two", "solo: reply 2"]);
  expect((await client().thread("solo streams").get()).activeRun).toBeNull();
});

describe("when streaming is not possible", () => {
  test("a run of another producer is active: all output arrives at the end", async () => {
    const { history, network } = program();
    const thread = client().thread("taken");
    let end = () => {};
    let other: Promise<unknown> = Promise.resolve();
    // Starts between the user's message and the network's own run.
    const { get } = history;
    history.get = async (context) => {
      other = thread.run({ runId: "other" }, () => new Promise<void>((resolve) => (end = resolve)));
      await until("the other run", async () => (await thread.get()).activeRun);
      return get(context);
    };
    model.answer = () => (end(), { text: "said" });
    await network.run("hi", { state: stateOf("taken"), streaming: { publish: history.publish } });
    await other;
    expect(texts(await restored("taken"))).toEqual(["user: hi", "helper: said"]);
    expect((await thread.messages()).messages.map(({ content }) => content)).toEqual(["hi", "said"]);
  });

  test("a run stopped by another client: the results are still saved, without an error", async () => {
    const complaints = (["warn", "error"] as const).map((name) => vi.spyOn(console, name));
    const { history, network } = program();
    const thread = client().thread("stopped");
    model.answer = async () => {
      const run = (await thread.get()).activeRun;
      await thread.stop(run!.runId);
      await until("the end of the run", async () => !(await thread.get()).activeRun);
      return { text: "said all the same" };
    };
    const { state } = await network.run("hi", { state: stateOf("stopped"), streaming: { publish: history.publish } });
    expect(replies(await restored("stopped")).map(kept)).toEqual(replies(state.results).map(kept));
    expect((await thread.messages()).messages.map(({ content }) => content)).toEqual(["hi", "said all the same"]);
    expect((await thread.runs()).runs.map(({ status }) => status)).toEqual(["finished", "stopped", "finished"]);
    for (const complaint of complaints) {
      expect(complaint).not.toHaveBeenCalled();
      complaint.mockRestore();
    }
  });
});

test("two networks of one process work on one thread at once", async () => {
  const { history, network } = program();
  const other = program().network;
  other.history = history;
  const streaming = { publish: history.publish };
  let asked = 0;
  let second: Promise<unknown> | undefined;
  model.answer = async ({ messages }) => {
    asked += 1;
    // Started while the first one is running. (If it had to save its message first, it would wait for the first one's end.)
    second ??= other.run("two", { state: stateOf("shared"), streaming });
    await until("both networks", () => asked >= 2);
    return { text: `to ${String(messages[1]?.content)}` };
  };
  await network.run("one", { state: stateOf("shared"), streaming });
  await second;
  const found = await restored("shared");
  expect(texts(found).sort()).toEqual(["helper: to one", "helper: to two", "user: one", "user: two"]);
  const { messages } = await client().thread("shared").messages();
  expect(messages.map(({ content }) => content).sort()).toEqual(["one", "to one", "to two", "two"]);
  expect((await client().thread("shared").get()).activeRun).toBeNull();
  expect((await log("shared")).filter(({ event }) => event.type === "RUN_ERROR")).toEqual([]);
});

test("networks that start while others end: each message and each reply is stored once", async () => {
  const { history, network } = program();
  const inputs = Array.from({ length: 12 }, (_, n) => `say ${n}`);
  model.answer = ({ messages }) => ({ text: `to ${String(messages[1]?.content)}` });
  const say = (input: string, n: number) =>
    until(input, () => model.asked.length >= n - 1).then(() =>
      network.run(input, { state: stateOf("overlapping"), streaming: { publish: history.publish } }),
    );
  await Promise.all(inputs.map(say));
  const expected = inputs.flatMap((input) => [input, `to ${input}`]).sort();
  const { messages } = await client().thread("overlapping").messages();
  expect(messages.map(({ content }) => content).sort()).toEqual(expected);
  expect(
    texts(await restored("overlapping"))
      .map((text) => text.replace(/^\w+: /, ""))
      .sort(),
  ).toEqual(expected);
  expect((await client().thread("overlapping").get()).activeRun).toBeNull();
});

test("a network that joins while the previous run ends has a separate run", async () => {
  const thread = client().thread("handed over");
  let join = () => {};
  const joining = new Promise<void>((resolve) => (join = resolve));
  let complete = () => {};
  const completing = new Promise<void>((resolve) => (complete = resolve));
  const slow: typeof fetch = async (url, init) => {
    // The first run ends only when the second network is about to join it.
    if (String(url).endsWith("/finish")) await joining;
    return fetch(url, init);
  };
  const { history, network } = program({ fetch: slow });
  const { get } = history;
  history.get = async (context) => {
    const turns = await get(context);
    if (context.input === "two") await completing.then(() => setTimeout(join, 20));
    return turns;
  };
  const publish: typeof history.publish = async (chunk) => {
    const published = history.publish(chunk);
    if (chunk.event === "run.completed" && chunk.data["scope"] === "network") complete();
    await published;
  };
  const say = (input: string) => network.run(input, { state: stateOf("handed over"), streaming: { publish } });
  let second: Promise<unknown> | undefined;
  const active = new Set<string | undefined>();
  model.answer = async () => {
    active.add((await thread.get()).activeRun?.runId);
    second ??= say("two");
    const isSaid = ({ content }: { content?: unknown }) => content === "two";
    await until("the second message", async () => (await thread.messages()).messages.some(isSaid));
    return { text: "said" };
  };
  await say("one");
  await second;
  expect([...active]).toEqual([expect.any(String), expect.any(String)]);
  expect(texts(await restored("handed over")).sort()).toEqual([
    "helper: said",
    "helper: said",
    "user: one",
    "user: two",
  ]);
});
