// OpenAI's client, unchanged, with an agent as its model.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import OpenAI from "openai";
import { eventually, inputs, startAgent, stopAgent, waiting } from "./chats.mjs";

const { THREADLINE_URL: base } = process.env;
assert.ok(base, "THREADLINE_URL is not set: these cases are run by `cargo test --test real`");
const client = new OpenAI({ baseURL: `${base}/openai/v1`, apiKey: "none" });
const model = "scripted";

before(() => startAgent(base));
after(stopAgent);

test("a response, and the next ones of its conversation", async () => {
  const first = await client.responses.create({ model, input: "say hello there" });
  assert.equal(first.status, "completed");
  assert.equal(first.output_text, "hellothere");
  const second = await client.responses.create({ model, input: "say more", previous_response_id: first.id });
  assert.equal(second.conversation.id, first.conversation.id);
  assert.equal(inputs.at(-1).messages.length, 3);
  const beside = await client.responses.create({ model, input: "say other", previous_response_id: first.id });
  assert.notEqual(beside.conversation.id, first.conversation.id);
  const third = await client.responses.create({ model, input: "say again", conversation: first.conversation.id });
  assert.equal(inputs.at(-1).messages.length, 5);
  assert.deepEqual(await client.responses.retrieve(third.id), await client.responses.retrieve(third.id));
  const items = await client.responses.inputItems.list(third.id);
  assert.equal(items.data[0].content[0].text, "say again");
});

test("the accumulator of a stream has the response that is read later", async () => {
  const stream = client.responses.stream({ model, input: "search tea" });
  const kinds = [];
  stream.on("event", ({ type }) => kinds.push(type));
  const final = await stream.finalResponse();
  assert.equal(final.output_text, "Two hits.");
  assert.deepEqual(final.output.map(({ type }) => type), ["reasoning", "mcp_call", "message"]);
  const { output, status } = await client.responses.retrieve(final.id);
  assert.equal(status, "completed");
  assert.deepEqual(output, final.output.map(({ parsed, parsed_arguments, ...item }) => strip(item)));
  assert.ok(kinds.includes("response.output_text.delta") && kinds.at(-1) === "response.completed");
});

/** An item without what the client's own accumulator adds. */
function strip(item) {
  const { content, ...rest } = item;
  return content ? { ...rest, content: content.map(({ parsed, ...part }) => part) } : rest;
}

test("a function of the client", async () => {
  const tools = [{ type: "function", name: "locate", parameters: { type: "object", properties: {} }, strict: false }];
  const asked = await client.responses.create({ model, input: "locate", tools });
  const call = asked.output.find(({ type }) => type === "function_call");
  assert.equal(call.name, "locate");
  const told = await client.responses.create({
    model, tools, previous_response_id: asked.id,
    input: [{ type: "function_call_output", call_id: call.call_id, output: "Rome" }],
  });
  assert.equal(told.output_text, "You are in Rome.");
});

test("an approval", async () => {
  const asked = await client.responses.create({ model, input: "mail" });
  const approval = asked.output.find(({ type }) => type === "mcp_approval_request");
  assert.equal(approval.name, "mail");
  const answer = { type: "mcp_approval_response", approval_request_id: approval.id, approve: true };
  const sent = await client.responses.create({ model, input: [answer], previous_response_id: asked.id });
  assert.equal(sent.output_text, "Sent.");
  const again = client.responses.create({ model, input: [answer], previous_response_id: asked.id });
  await assert.rejects(again, ({ status, code }) => status === 409 && code === "interrupt_settled");
});

test("a background response is followed, cancelled and deleted", async () => {
  const begun = await client.responses.create({ model, input: "slow background", background: true });
  assert.equal(begun.status, "in_progress");
  await assert.rejects(
    client.responses.create({ model, input: "say no", previous_response_id: begun.id }),
    ({ status, code, error }) => status === 409 && code === "conversation_locked" && error.active_response_id === begun.id,
  );
  const followed = await client.responses.retrieve(begun.id, { stream: true });
  const numbers = [];
  const reading = (async () => {
    for await (const { sequence_number } of followed) numbers.push(sequence_number);
  })();
  await eventually("half is there", () => waiting.has("background") && numbers.length > 4);
  waiting.get("background")();
  await reading;
  const rest = await client.responses.retrieve(begun.id, { stream: true, starting_after: 4 });
  const later = [];
  for await (const { sequence_number } of rest) later.push(sequence_number);
  assert.deepEqual(later, numbers.slice(5));
  const other = await client.responses.create({ model, input: "slow cancel", background: true });
  await eventually("it waits", () => waiting.has("cancel"));
  assert.equal((await client.responses.cancel(other.id)).status, "cancelled");
  await client.responses.delete(begun.id);
  await assert.rejects(client.responses.retrieve(begun.id), ({ status }) => status === 404);
});

test("conversations and their items", async () => {
  const items = [{ type: "message", role: "user", content: "one" }];
  const { id } = await client.conversations.create({ items, metadata: { topic: "tea" } });
  assert.deepEqual((await client.conversations.retrieve(id)).metadata, { topic: "tea" });
  await client.conversations.items.create(id, { items: [{ role: "assistant", content: "two" }, { role: "user", content: "three" }] });
  const all = [];
  for await (const item of client.conversations.items.list(id, { order: "asc", limit: 2 })) all.push(item);
  assert.deepEqual(all.map(({ content }) => content[0].text), ["one", "two", "three"]);
  await client.conversations.items.delete(all[1].id, { conversation_id: id });
  const left = await client.conversations.items.list(id, { include: ["reasoning.encrypted_content"] });
  assert.deepEqual(left.data.map(({ content }) => content[0].text), ["three", "one"]);
  assert.equal((await client.conversations.update(id, { metadata: { a: "b" } })).metadata.a, "b");
  assert.equal((await client.conversations.delete(id)).deleted, true);
});

test("models, and what there is not", async () => {
  const names = [];
  for await (const found of client.models.list()) names.push(found.id);
  assert.ok(names.includes("demo") && names.includes("scripted"));
  await assert.rejects(client.responses.create({ model: "none", input: "x" }), ({ status, code, param }) =>
    status === 404 && code === "model_not_found" && param === "model");
  const failed = await client.responses.create({ model, input: "fail" });
  assert.equal(failed.status, "failed");
  assert.equal(failed.error.message, "The agent cannot do that.");
});

test("docs/openai.md: a response, and the one after it", async () => {
  const page = await readFile(new URL("../../../docs/openai.md", import.meta.url), "utf8");
  const code = /```ts\nimport .*\n([^]*?)```/.exec(page)[1].replace("http://localhost:7420", base);
  const AsyncFunction = (async () => {}).constructor;
  const said = [];
  await new AsyncFunction("OpenAI", "console", code)(OpenAI, { log: (...words) => said.push(words[0]) });
  assert.equal(said.length, 1);
  assert.ok(said[0].length > 0, "the answer has a text");
});
