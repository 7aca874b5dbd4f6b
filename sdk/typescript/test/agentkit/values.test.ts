import { AgentResult } from "@inngest/agent-kit";
import { describe, expect, test } from "vitest";
import { client, kept, model, program, replies, restored, stateOf, useServer } from "./setup.js";

useServer();

describe("values", () => {
  const deep = (levels: number): unknown => (levels === 0 ? "bottom" : { in: [deep(levels - 1)] });
  test.each<[string, unknown]>([
    ["floats", [0.1, 1e-7, 5e-324, 1.7976931348623157e308, 123456789.123456789]],
    ["order of keys", { z: 1, a: 2, "10": 3, "9": 4, m: { y: 1, b: 2 } }],
    ["NUL and controls", "a\u0000b\u0001\u001f\u007f\u2028"],
    ["halves of characters", { text: "cut \ud83e", "\udc00": "\udfff\ud800" }],
    ["a date", new Date(0)],
    ["deep nesting", deep(200)],
    ["nothing", [null, "", [], {}]],
    ["names of prototypes", JSON.parse('{"__proto__":{"a":1},"constructor":2}')],
    ["three bytes a character, six in JSON", "縁\u0001".repeat(100_000)],
    ["more than an event can be", "x".repeat(8_400_000)],
  ])("%s", async (name, data) => {
    const threadId = `value ${name}`;
    const { history, network } = program();
    const state = stateOf(threadId);
    const tool = { type: "tool" as const, id: "c1", name: "t", input: undefined as never, function: "t" };
    const small = typeof data === "string" && data.length > 1_000 ? {} : { data };
    const result = new AgentResult(
      "a",
      [{ type: "tool_call", role: "assistant", tools: [{ ...tool, input: small as never }], stop_reason: "tool" }],
      [{ type: "tool_result", role: "tool_result", tool, content: { data }, stop_reason: "tool" }],
      new Date(1_700_000_000_123),
      [],
      [],
      JSON.stringify(small),
      "r1",
    );
    await history.createThread({ state, input: "" });
    await history.appendResults({ threadId, newResults: [result], state, input: "", network: network as never });
    const [found] = await restored(threadId);
    expect(JSON.stringify(found!.export())).toBe(JSON.stringify(result.export()));
    expect(found!.raw).toBe(result.raw);
    const { messages } = await client().thread(threadId).messages({ limit: 1 });
    expect(messages).toHaveLength(1);
  });
});

// Larger than a page of events may be.
test("4.5 MB of streamed text", async () => {
  const { history, network } = program();
  const large = "x".repeat(4_500_000);
  model.answer = () => (model.asked.length === 1 ? { calls: [{ name: "echo", args: { large } }] } : { text: "done" });
  const state = stateOf("streamed values");
  await network.run("echo", { state, streaming: { publish: history.publish } });
  expect(replies(await restored("streamed values")).map(kept)).toEqual(replies(state.results).map(kept));
  const { messages } = await client().thread("streamed values").messages({ limit: 2 });
  expect(messages.map(({ content }) => String(content).length)).toEqual([4]);
});
