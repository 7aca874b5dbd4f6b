import { afterAll, beforeAll, describe, expect, test } from "vitest";
import WebSocket from "ws";
import {
  type Ag2bOptions,
  type ChatMessage,
  RunInFlightError,
  threadHistory,
  threadline,
} from "../../src/ag2b/index.js";
import { toUIMessages } from "../../src/ai-sdk/index.js";
import { isProblem, Threadline, type WebSocketClass } from "../../src/index.js";
import { caught } from "../harness/caught.js";
import { Proxy } from "../harness/proxy.js";
import { Server } from "../harness/server.js";
import { until } from "../harness/until.js";
import { log } from "../harness/writer.js";
import { AgentDouble, type Turn } from "./double.js";

let server: Server;
let client: Threadline;
let made = 0;
const open: (() => void)[] = [];
const classes = { WebSocket: WebSocket as unknown as WebSocketClass };

beforeAll(async () => {
  server = await Server.start();
  client = new Threadline({ url: server.url, ...classes });
});
afterAll(async () => {
  for (const close of open) close();
  client.close();
  await server.end();
});

const json = (value: unknown) => JSON.parse(JSON.stringify(value)) as unknown;
const newThread = () => `ag2b-${(made += 1)}`;
const gate = () => {
  let pass = () => {};
  const passed = new Promise<void>((resolve) => (pass = resolve));
  return { pass, passed };
};

/** Produces the given turns one after the other, then "Yes." */
function scripted(...turns: Turn[]) {
  return (messages: readonly ChatMessage[]) =>
    turns[messages.filter(({ role }) => role === "assistant").length] ?? { content: ["Yes."] };
}

async function bound(agent: AgentDouble, threadId: string, options: Partial<Ag2bOptions> = {}): Promise<AgentDouble> {
  const off = await agent.use(threadline({ url: server.url, ...classes, threadId, ...options }));
  open.push(off!);
  return agent;
}

/** The messages that a newly opened page receives. */
async function reloaded(threadId: string): Promise<unknown> {
  return json((await bound(new AgentDouble(scripted()), threadId)).history.getSnapshot());
}

const tools = {
  weather: () => ({ sky: "clear", at: 1.5 }),
  broken: () => {
    throw new Error("no network");
  },
};
const withTools: Turn[] = [
  {
    reasoning: ["The user ", "wants weather"],
    content: ["Let me ", "look. "],
    calls: [
      { id: "c1", name: "weather", arguments: { city: "Bern", nested: { z: 1, a: [null] } } },
      { id: "c2", name: "broken", arguments: {} },
    ],
    metadata: { reasoningSignature: "c2lnbmF0dXJl" },
  },
  { content: ["It is\n", " clear.  "] },
];

test.each(["chat", "chatStream"] as const)(
  "messages of %s are loaded by the next client that opens the thread",
  async (how) => {
    const threadId = newThread();
    const agent = await bound(new AgentDouble(scripted(...withTools), tools), threadId);
    if (how === "chat") expect(await agent.chat("How is the weather?")).toEqual({ content: "It is\n clear.  " });
    else for await (const _ of agent.chatStream("How is the weather?"));
    await agent.chat("Thanks");
    const said = json(agent.history.getSnapshot()) as unknown[];
    expect(said).toHaveLength(7);
    expect(await reloaded(threadId)).toEqual(said);
    const { runs } = await client.thread(threadId).runs();
    expect(runs.map(({ status }) => status)).toEqual(["finished", "finished"]);
  },
);

test("a chat of the AI SDK shows both sides of it", async () => {
  const threadId = newThread();
  const agent = await bound(new AgentDouble(scripted({ content: ["Well, ", "thanks."] })), threadId);
  await agent.chat("How are you?");
  const { messages } = await toUIMessages(client, "demo", threadId);
  const texts = messages.map(({ role, parts }) => [
    role,
    parts.flatMap((part) => (part.type === "text" ? [part.text] : [])),
  ]);
  expect(texts).toEqual([
    ["user", ["How are you?"]],
    ["assistant", ["Well, thanks."]],
  ]);
});

test("other readers see messages while they are streamed", async () => {
  const threadId = newThread();
  const { pass, passed } = gate();
  const agent = await bound(
    new AgentDouble(scripted({ content: ["Once ", "upon"], gate: (at) => (at === 1 ? passed : undefined) })),
    threadId,
  );
  const events: string[] = [];
  const chat = (async () => {
    for await (const event of agent.chatStream("Tell me")) events.push(event.type);
  })();
  const followed = client.thread(threadId);
  await until("the first word", async () => (await followed.messages()).messages.at(-1)?.content === "Once ");
  pass();
  await chat;
  expect(events.filter((type) => type === "agent_content_delta")).toHaveLength(2);
  expect((await followed.messages()).messages.map(({ content }) => content)).toEqual(["Tell me", "Once upon"]);
});

describe("an interrupted chat", () => {
  test("aborted: the user's message is kept, a partial answer is in no history", async () => {
    const threadId = newThread();
    const { pass, passed } = gate();
    const abort = new AbortController();
    const untilAborted = (at: number, signal?: AbortSignal) => {
      if (at === 0 || abort.signal.aborted) return;
      pass();
      return new Promise<void>((_, reject) => signal?.addEventListener("abort", () => reject(signal.reason as Error)));
    };
    const agent = await bound(new AgentDouble(scripted({ content: ["Half", " said"], gate: untilAborted })), threadId);
    const chat = caught(agent.chat("Go on", { signal: abort.signal }));
    await passed;
    await until("half of it", async () => (await client.thread(threadId).messages()).messages.length === 2);
    abort.abort(new Error("enough"));
    expect(await chat).toMatchObject({ message: "enough" });
    expect(agent.history.getSnapshot()).toEqual([{ role: "user", content: "Go on" }]);
    expect(await reloaded(threadId)).toEqual([{ role: "user", content: "Go on" }]);
    await agent.chat("Again");
    expect(await reloaded(threadId)).toEqual(json(agent.history.getSnapshot()));
  });

  test("the provider fails: the run ends with the error", async () => {
    const threadId = newThread();
    const agent = await bound(new AgentDouble(scripted({ error: new Error("overloaded") })), threadId);
    expect(await caught(agent.chat("Hello"))).toMatchObject({ message: "overloaded" });
    expect((await client.thread(threadId).runs()).runs[0]).toMatchObject({
      status: "error",
      errorMessage: "overloaded",
    });
    expect(await reloaded(threadId)).toEqual([{ role: "user", content: "Hello" }]);
  });

  test("another client stops the run", async () => {
    const threadId = newThread();
    const forEver = (_: number, signal?: AbortSignal) =>
      new Promise<void>((_, no) => signal?.addEventListener("abort", () => no(signal.reason as Error)));
    const agent = await bound(new AgentDouble(scripted({ content: ["…"], gate: forEver })), threadId);
    const chat = caught(agent.chat("Hello"));
    const { runId } = (await until("the run", async () => (await client.thread(threadId).get()).activeRun))!;
    await client.thread(threadId).stop(runId);
    expect(await chat).toMatchObject({ name: "StopRequested" });
    expect((await client.thread(threadId).runRecord(runId)).status).toBe("stopped");
  });
});

test("while another run is active, a chat is refused without any change", async () => {
  const threadId = newThread();
  const agent = await bound(new AgentDouble(scripted()), threadId);
  await client.thread(threadId).run({}, async () => {
    expect(isProblem(await caught(agent.chat("Me too")), "run-active")).toBe(true);
  });
  expect(agent.history.getSnapshot()).toEqual([]);
  await agent.chat("Now");
  expect(await reloaded(threadId)).toEqual(json(agent.history.getSnapshot()));
});

test("two tabs: messages of one appear in the other between its chats", async () => {
  const threadId = newThread();
  const [one, two] = [
    await bound(new AgentDouble(scripted()), threadId),
    await bound(new AgentDouble(scripted()), threadId),
  ];
  const same = () =>
    until("the same", () => JSON.stringify(one.history.getSnapshot()) === JSON.stringify(two.history.getSnapshot()));
  await one.chat("From one");
  await same();
  await two.chat("From two");
  await same();
  expect(one.history.getSnapshot()).toHaveLength(4);
  expect(await reloaded(threadId)).toEqual(json(one.history.getSnapshot()));
});

describe("reset and restore", () => {
  test("they throw during a chat, take effect between chats, and the log keeps everything", async () => {
    const threadId = newThread();
    const { pass, passed } = gate();
    const agent = await bound(new AgentDouble(scripted({ content: ["One"], gate: () => passed })), threadId);
    const chat = agent.chat("First");
    await until("the user's message", () => agent.history.getSnapshot().length === 1);
    expect(() => agent.history.reset()).toThrow(RunInFlightError);
    expect(() => agent.history.restore([])).toThrow(RunInFlightError);
    pass();
    await chat;
    const before = (await client.thread(threadId).get()).tail;
    const other: ChatMessage[] = [
      { role: "user", content: "Imported" },
      { role: "assistant", content: "Yes", calls: [] },
    ];
    agent.history.restore(other);
    await until("the restored", async () => JSON.stringify(await reloaded(threadId)) === JSON.stringify(other));
    expect(agent.history.getSnapshot()).toEqual(other);
    agent.history.reset();
    await until("nothing", async () => JSON.stringify(await reloaded(threadId)) === "[]");
    expect((await client.thread(threadId).messages({ at: before })).messages.map(({ content }) => content)).toEqual([
      "First",
      "One",
    ]);
  });
});

test("an unreachable server delays no chat, and receives everything once it is back", async () => {
  const threadId = newThread();
  const proxy = await Proxy.start(server);
  const errors: unknown[] = [];
  const agent = await bound(new AgentDouble(scripted()), threadId, {
    url: proxy.url,
    retries: { reads: 1_000, writes: 1_000, producers: 1_000 },
    onError: (error) => errors.push(error),
  });
  await agent.chat("Before");
  proxy.refuse = true;
  proxy.cut();
  await agent.chat("Meanwhile");
  // Another writer continues the thread.
  const user = { role: "user", content: "From elsewhere", id: "elsewhere" } as const;
  const other = { threadId, runId: "elsewhere" };
  await client
    .thread(threadId)
    .putRun(other.runId, [{ type: "RUN_STARTED", ...other, input: { ...other, messages: [user] } }]);
  proxy.refuse = false;
  const texts = async () => ((await reloaded(threadId)) as ChatMessage[]).map(({ content }) => content).join();
  await until("all of it", async () => (await texts()) === "Before,Yes.,From elsewhere,Meanwhile,Yes.");
  await until("the agent's history", () => agent.history.getSnapshot().length === 5);
  expect(errors.length).toBeGreaterThan(0);
  proxy.end();
});

test("a released agent has its original methods and history", async () => {
  const threadId = newThread();
  const agent = new AgentDouble(scripted());
  const off = await agent.use(threadline({ client, threadId }));
  await agent.chat("Kept");
  off!();
  await agent.chat("Not kept");
  agent.history.reset();
  expect(Object.keys(agent)).not.toContain("chat");
  expect(await reloaded(threadId)).toHaveLength(2);
});

test("no run stays active after an agent is released during a chat, or after another plugin forbids a chat", async () => {
  const threadId = newThread();
  const thread = client.thread(threadId);
  const { pass, passed } = gate();
  const agent = new AgentDouble(scripted({ content: ["One", "Two"], gate: (at) => (at === 1 ? passed : undefined) }));
  const off = await agent.use(threadline({ url: server.url, ...classes, threadId }));
  const chat = agent.chat("Hello");
  await until("the run", async () => (await thread.get()).activeRun);
  off!();
  await until("its end", async () => (await thread.get()).activeRun === null);
  pass();
  expect(await chat).toEqual({ content: "OneTwo" });

  const other = await bound(new AgentDouble(scripted()), threadId);
  const allow = other.addHook("onChatStart", () => {
    throw new Error("not now");
  });
  expect(await caught(other.chat("Me"))).toMatchObject({ message: "not now" });
  expect((await thread.get()).activeRun).toBeNull();
  allow();
  await other.chat("Now");
  expect(await reloaded(threadId)).toEqual(json(other.history.getSnapshot()));
});

describe("the history of a thread, without an agent", () => {
  test("is the same array until it changes, follows the log, and can be restored between runs", async () => {
    const threadId = newThread();
    const history = await threadHistory({ client, threadId });
    let changes = 0;
    history.subscribe(() => (changes += 1));
    expect(history.getSnapshot()).toBe(history.getSnapshot());
    const agent = await bound(new AgentDouble(scripted()), threadId);
    await agent.chat("Hello");
    await until("the chat", () => history.getSnapshot().length === 2 && !history.running);
    const [first] = history.getSnapshot();
    await agent.chat("More");
    await until("more", () => history.getSnapshot().length === 4 && !history.running);
    expect(history.getSnapshot()[0]).toBe(first);
    expect(changes).toBeGreaterThan(1);

    await client.thread(threadId).run({}, async (run) => {
      await run.append({ type: "RUN_STARTED", threadId, runId: run.runId });
      await until("the run", () => history.running);
      expect(() => history.restore([])).toThrow(RunInFlightError);
      expect(() => history.reset()).toThrow(RunInFlightError);
    });
    await until("the end of the run", () => !history.running);
    await history.restore([{ role: "user", content: "Only this" }]);
    expect(history.getSnapshot()).toEqual([{ role: "user", content: "Only this" }]);
    await history.reset();
    expect(history.getSnapshot()).toEqual([]);
    expect((await log(server, threadId)).length).toBeGreaterThan(10);
    history.close();
  });

  test("a recreated thread is read again; a deletion is reported", async () => {
    const threadId = newThread();
    const errors: unknown[] = [];
    const history = await threadHistory({ client, threadId, onError: (error) => errors.push(error) });
    await history.restore([{ role: "user", content: "Old" }]);
    await client.thread(threadId).delete();
    await until("the end", () => errors.length === 1);
    expect(errors[0]).toMatchObject({ message: "the thread was deleted" });
  });
});
