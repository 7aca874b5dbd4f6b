// The same script on LangGraph's own server and on Threadline: the same events in the same order with the same members, but for the
// differences that are listed here and in docs/langgraph-server.md.
//
// The events of LangGraph's server are in `oracle/events.json`. To record them anew, run `langgraph dev --no-browser --no-reload` of
// `langgraph-cli[inmem]` in `oracle`, and this file with ORACLE_URL set to its address.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { Client } from "langgraph15";
import { WebSocket } from "undici";
import { startAgent, stopAgent } from "./chats.mjs";

const { THREADLINE_URL: base, ORACLE_URL: oracle } = process.env;
assert.ok(base, "THREADLINE_URL is not set: these cases are run by `cargo test --test real`");
const options = { timeout: 120_000 };
const file = new URL("oracle/events.json", import.meta.url);
const recorded = oracle ? {} : JSON.parse(await readFile(file, "utf8"));

before(() => startAgent(base));
after(async () => {
  stopAgent();
  if (oracle) await writeFile(file, `${JSON.stringify(recorded, null, 1)}\n`);
});

const channels = ["values", "checkpoints", "lifecycle", "input", "messages", "tools", "custom"];
const isBegin = ({ method, params }) => method === "lifecycle" && params.data.event === "running";
const isEnd = ({ method, params }) => method === "lifecycle" && params.data.event !== "running";

const runOf = ({ event_id }) => event_id.split(":")[1];

/** A thread on one of the servers. */
function open(apiUrl, transport) {
  const client = new Client({ apiUrl, apiKey: null });
  const webSocketFactory = (url) => new WebSocket(url);
  const thread = client.threads.stream(randomUUID(), { assistantId: "scripted", transport, webSocketFactory });
  /** Events of the first run after this one, up to its end. */
  const next = async (before) => {
    const subscription = await thread.subscribe({ channels, namespaces: [[]], depth: 1 });
    const events = [];
    let begun = false;
    // An iteration pauses at the end of a run: there may be an earlier run before this one.
    while (!begun || !isEnd(events.at(-1))) {
      for await (const event of subscription) {
        begun ||= isBegin(event) && runOf(event) !== before;
        if (begun) events.push(event);
        if (begun && isEnd(event)) break;
      }
      if (!begun) await subscription.waitForResume();
    }
    return events;
  };
  const say = async (content) => {
    const input = { messages: [{ type: "human", id: randomUUID(), content }] };
    await thread.submitRun({ input, config: {} });
    return next();
  };
  const respond = async (events, response) => {
    const { interrupt_id } = events.find(({ method }) => method === "input.requested").params.data;
    const command = { id: 99, method: "input.respond", params: { namespace: [], interrupt_id, response } };
    const asked = await fetch(`${apiUrl}/threads/${thread.threadId}/commands`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(command),
    });
    assert.equal((await asked.json()).type, "success");
    return next(runOf(events[0]));
  };
  return { say, respond, close: () => thread.close() };
}

/** A value with its members and their types, and with the texts of those that name a kind. */
const shape = (value, name) =>
  Array.isArray(value)
    ? value.map((inner) => shape(inner))
    : value && typeof value === "object"
      ? Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, shape(inner, name)]).sort())
      : ["event", "type", "role", "name"].includes(name)
        ? value
        : typeof value;

/** An event, with the differences between the servers left out. */
function grammar({ method, params, ...rest }) {
  const { namespace, data } = params;
  const members = [Object.keys(rest).sort(), Object.keys(params).sort()];
  // LangGraph's messages have their content as blocks, and members of the model.
  if (method === "values") return [method, members, data.messages.map(({ type }) => type)];
  // The payload of an interrupt is the agent's own.
  if (method === "input.requested") return [method, members, namespace, Object.keys(data).sort()];
  // LangGraph's server copies the number of a call from the model.
  if (data.content?.type === "tool_call_chunk") delete data.content.index;
  return [method, members, namespace, shape(data)];
}

/** Events of which LangGraph's server has none here. */
const isOurs = ({ method }) => ["checkpoints", "tools", "input.answered"].includes(method);

function told(events) {
  // Each server sends values at its own steps, and a reader who comes later gets fewer of them: the last ones count.
  const last = events.findLastIndex(({ method }) => method === "values");
  const all = events.filter((event, at) => !isOurs(event) && (event.method !== "values" || at === last));
  return all.map(grammar);
}

/** Fails if the numbers of the events do not grow, or if two have one id. */
function ordered(events) {
  assert.ok(events.every(({ seq }, at) => at === 0 || seq > events[at - 1].seq));
  assert.equal(new Set(events.map(({ event_id }) => event_id)).size, events.length);
}

/** Events of the runs of a script on a server. */
async function runs(apiUrl, transport, words) {
  const server = open(apiUrl, transport);
  const events = await server.say(words);
  const all = words === "ask" ? [events, await server.respond(events, { approved: false, reason: "no" })] : [events];
  await server.close();
  return all;
}

for (const transport of ["sse", "websocket"]) {
  for (const words of ["say one two", "find parcels", "fail", "ask"]) {
    test(`${words}, over ${transport}`, options, async () => {
      const name = `${transport}: ${words}`;
      if (oracle) recorded[name] = await runs(oracle, transport, words);
      const found = await runs(`${base}/langgraph`, transport, words);
      [...recorded[name], ...found].forEach(ordered);
      assert.deepEqual(found.map(told), recorded[name].map(told));
    });
  }
}
