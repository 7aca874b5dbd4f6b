import { AgentResult, createState, type State } from "@inngest/agent-kit";
import { describe, expect, test } from "vitest";
import type { Reply } from "./model.js";
import {
  asJson,
  client,
  type Data,
  kept,
  model,
  program,
  replies,
  restored,
  stateOf,
  texts,
  useServer,
} from "./setup.js";

useServer();

describe("a network", () => {
  test("restores exactly the saved results in a new process", async () => {
    model.answer = () =>
      model.asked.length === 1
        ? { text: "Let me see.", calls: [{ name: "weather", args: { city: "Köln" } }] }
        : { text: "Sunny." };
    const { state } = await program().network.run("How is the weather?", { state: stateOf() });
    const found = await restored(state.threadId!);
    expect(texts(found)).toEqual(["user: How is the weather?", "helper: Let me see.|tool_call", "helper: Sunny."]);
    expect(replies(found).map(kept)).toEqual(state.results.map(kept));
    expect(replies(found).every((result) => result instanceof AgentResult)).toBe(true);
    expect(replies(found).map((result) => result.checksum)).toEqual(state.results.map((result) => result.checksum));
    expect(replies(found)[0]!.toolCalls[0]!.content).toEqual({
      data: { city: "Köln", sunny: true, degrees: 0.1 + 0.2 },
    });
    expect(replies(found).every(({ raw, prompt, id }) => raw && prompt && id)).toBe(true);
  });

  test("continues a thread: its model receives the conversation", async () => {
    const first = await program().network.run("one", { state: stateOf() });
    const threadId = first.state.threadId!;
    await program().network.run("two", { state: stateOf(threadId) });
    const said = model.asked[1]!.messages.map(({ role, content }) => `${role}: ${String(content)}`);
    expect(said).toEqual(["system: You help.", "user: two", "user: one", "assistant: reply 1", "user: two"]);
    expect(texts(await restored(threadId))).toEqual(["user: one", "helper: reply 1", "user: two", "helper: reply 2"]);
  });

  test("is shown unchanged by every other API", async () => {
    model.answer = () =>
      model.asked.length === 1
        ? { text: "Let me see.", calls: [{ name: "weather", args: { city: "Rom" } }] }
        : { text: "Sunny." };
    const { state } = await program().network.run("How is the weather?", { state: stateOf() });
    const { messages, pendingToolCallIds } = await client().thread(state.threadId!).messages();
    const [one, two] = state.results;
    expect(messages).toEqual([
      { id: expect.any(String), role: "user", content: "How is the weather?" },
      {
        id: one!.id,
        role: "assistant",
        content: "Let me see.",
        toolCalls: [
          { id: expect.any(String), type: "function", function: { name: "weather", arguments: '{"city":"Rom"}' } },
        ],
      },
      expect.objectContaining({ role: "tool", content: '{"city":"Rom","sunny":true,"degrees":0.30000000000000004}' }),
      { id: two!.id, role: "assistant", content: "Sunny." },
    ]);
    expect(pendingToolCallIds).toEqual([]);
    const thread = await client().thread(state.threadId!).get();
    expect(thread).toMatchObject({ agentId: "support", userId: "ann", activeRun: null });
  });

  test("keeps errors thrown by tools", async () => {
    model.answer = () => (model.asked.length === 1 ? { calls: [{ name: "broken", args: {} }] } : { text: "Sorry." });
    const { state } = await program().network.run("try", { state: stateOf() });
    const [failed] = replies(await restored(state.threadId!));
    expect(failed!.toolCalls).toEqual(asJson(state.results[0]!.toolCalls));
    expect(failed!.toolCalls[0]!.content).toMatchObject({ error: { message: "no such luck" } });
  });

  test.each<[string, Reply]>([
    ["out of order", { error: "out of order" }],
    ["it is over", { calls: [{ name: "rude", args: {} }] }],
    ["non-existent tool", { calls: [{ name: "unknown", args: {} }] }],
  ])("that fails (%s) keeps the user's message, and the thread continues", async (error, reply) => {
    model.answer = () => reply;
    const state = stateOf(error);
    await expect(program().network.run("hello?", { state })).rejects.toThrow(error);
    model.answer = () => ({ text: "back again" });
    await program().network.run("and now?", { state: stateOf(error) });
    expect(texts(await restored(error))).toEqual(["user: hello?", "user: and now?", "helper: back again"]);
  });
});

describe("thread ids", () => {
  test("an id given by the client is used, and its thread created once", async () => {
    const { network } = program();
    await network.run("one", { state: stateOf("given") });
    const { epoch } = await client().thread("given").get();
    await network.run("two", { state: stateOf("given") });
    expect((await client().thread("given").get()).epoch).toBe(epoch);
    expect(texts(await restored("given"))).toEqual(["user: one", "helper: reply 1", "user: two", "helper: reply 2"]);
  });

  test("without an id a thread is created for each run", async () => {
    const { network } = program();
    const [one, two] = [stateOf(), stateOf()];
    await network.run("one", { state: one });
    await network.run("two", { state: two });
    expect(one.threadId).not.toBe(two.threadId);
    expect(texts(await restored(one.threadId!))).toEqual(["user: one", "helper: reply 1"]);
  });

  test.each(["with spaces", "a/b?c#d", "日本語-🧵", "%2F", "..a", "x".repeat(256)])("%s", async (threadId) => {
    const { network } = program();
    await network.run("one", { state: stateOf(threadId) });
    expect(texts(await restored(threadId))).toEqual(["user: one", "helper: reply 1"]);
  });

  test("a thread that does not exist has no turns", async () => {
    expect(await restored("never made")).toEqual([]);
  });

  test("a thread of another user is neither read nor written", async () => {
    await program().network.run("mine", { state: stateOf("anns") });
    await expect(program().network.run("yours?", { state: stateOf("anns", { userId: "bob" }) })).rejects.toMatchObject({
      slug: "thread-exists",
    });
    expect(await restored("anns", "bob")).toEqual([]);
    expect(model.asked).toHaveLength(1);
    expect(texts(await restored("anns"))).toEqual(["user: mine", "helper: reply 1"]);
  });

  test("the owner is the user that the option returns", async () => {
    const state = stateOf(undefined, { tenant: { person: "eve" } });
    const user = ({ data }: State<Data>) => (data["tenant"] as { person: string }).person;
    await program({ user }).network.run("hi", { state });
    expect((await client("eve").thread(state.threadId!).get()).userId).toBe("eve");
  });

  test("the option names threads; without it the server does", async () => {
    const [one, two, three] = [stateOf(), stateOf(), stateOf()];
    await program({ title: ({ input }) => `About: ${input}` }).network.run("cats", { state: one });
    await program().network.run("Where is the parcel that I am waiting for since the day before yesterday?", {
      state: two,
    });
    await program({ title: () => undefined }).network.run("nothing", { state: three });
    const thread = ({ threadId }: State<Data>) => client().thread(threadId!).get();
    expect((await thread(one)).name).toBe("About: cats");
    // The server may have named the thread at this point; a name set by a person would not change.
    for (const unnamed of [two, three]) expect((await thread(unnamed)).nameSource).not.toBe("person");
  });
});

describe("patterns", () => {
  test("client-authoritative: the client's results are used, and only new ones are saved", async () => {
    const { state } = await program().network.run("one", { state: stateOf() });
    const threadId = state.threadId!;
    const { history, network } = program();
    let reads = 0;
    history.get = async () => ((reads += 1), []);
    await network.run("two", {
      state: createState<Data>({ userId: "ann" }, { threadId, results: await restored(threadId) }),
    });
    expect(reads).toBe(0);
    expect(texts(await restored(threadId))).toEqual(["user: one", "helper: reply 1", "user: two", "helper: reply 2"]);
  });

  test("hybrid: loaded once, then the client continues with its own results", async () => {
    const { state } = await program().network.run("one", { state: stateOf() });
    const threadId = state.threadId!;
    let held = await restored(threadId);
    for (const input of ["two", "three"]) {
      const run = await program().network.run(input, {
        state: createState<Data>({ userId: "ann" }, { threadId, results: held }),
      });
      held = run.state.results;
    }
    expect(replies(held)).toHaveLength(3);
    expect(replies(await restored(threadId)).map(kept)).toEqual(replies(held).map(kept));
  });

  test("messages of the client instead of results", async () => {
    const state = createState<Data>(
      { userId: "ann" },
      { threadId: "with-messages", messages: [{ type: "text", role: "user", content: "before" }] },
    );
    await program().network.run("now", { state });
    expect(texts(await restored("with-messages"))).toEqual(["user: now", "helper: reply 1"]);
  });
});

describe("saving again", () => {
  const save = async (threadId: string, newResults: AgentResult[], more: object = {}) => {
    const { history, network } = program();
    const state = stateOf(threadId);
    await history.createThread({ state, input: "" });
    await history.appendResults({ threadId, newResults, state, input: "", network: network as never, ...more });
    return { history, state, network };
  };
  const result = (id: string | undefined, content: string, at = 1_700_000_000_123) =>
    new AgentResult(
      "a",
      [{ type: "text", role: "assistant", content, stop_reason: "stop" }],
      [],
      new Date(at),
      [],
      [],
      "{}",
      id,
    );

  test("the first version is kept, identified by its id and not by its time", async () => {
    await save("again", [result("r1", "first")]);
    await save("again", [result("r1", "first", 1_700_000_009_999)]);
    const found = await restored("again");
    expect(found.map(({ createdAt }) => createdAt.getTime())).toEqual([1_700_000_000_123]);
    expect((await client().thread("again").messages()).messages).toHaveLength(1);
  });

  test("results without an id are identified by their content; equal texts of the same second are two results", async () => {
    const results = [result(undefined, "same", 1_700_000_000_001), result(undefined, "same", 1_700_000_000_002)];
    await save("no-ids", results);
    await save("no-ids", results);
    expect((await restored("no-ids")).map(({ createdAt }) => createdAt.getTime() % 1_000)).toEqual([1, 2]);
  });

  test("the documented interface passes the user's message with the results", async () => {
    const userMessage = { content: "asked", role: "user" as const, timestamp: new Date(1_600_000_000_000) };
    await save("documented", [result("d1", "answered")], { userMessage: { ...userMessage, id: "m1" } });
    await save("documented", [result("d1", "answered")], { userMessage: { ...userMessage, id: "m1" } });
    const found = await restored("documented");
    expect(texts(found)).toEqual(["user: asked", "a: answered"]);
    expect(found[0]).toMatchObject({ id: "m1", createdAt: new Date(1_600_000_000_000) });
  });

  test("a message without an id belongs to its results", async () => {
    const userMessage = { content: "asked", role: "user" as const, timestamp: new Date(1_600_000_000_000) };
    await save("no id of its own", [result("n1", "answered")], { userMessage });
    await save("no id of its own", [result("n1", "answered")], { userMessage });
    expect(texts(await restored("no id of its own"))).toEqual(["user: asked", "a: answered"]);
  });

  test("a message passed to both hooks is one turn", async () => {
    const { history, network } = program();
    const state = stateOf("both-hooks");
    const userMessage = { content: "asked", role: "user" as const, timestamp: new Date() };
    const context = { threadId: "both-hooks", state, input: "asked", network: network as never };
    await history.createThread({ state, input: "asked", network: network as never });
    await history.appendUserMessage({ ...context, userMessage: { ...userMessage, id: "m1" } });
    await history.appendResults({ ...context, newResults: [result("b1", "answered")], userMessage });
    expect(texts(await restored("both-hooks"))).toEqual(["user: asked", "a: answered"]);
  });
});
