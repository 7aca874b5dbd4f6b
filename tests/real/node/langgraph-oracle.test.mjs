// The same script on `langgraph dev` and on Threadline: the same events in the same order with the same members, but for the differences
// that are listed here and in docs/langgraph-server.md.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, describe, test } from "node:test";
import { Client } from "langgraph15";
import { WebSocket } from "undici";
import { startAgent, stopAgent } from "./chats.mjs";

const { THREADLINE_URL: base, ORACLE_URL: oracle } = process.env;
assert.ok(base && oracle, "THREADLINE_URL or ORACLE_URL is not set: these cases are run by `make test-full`");
const options = { timeout: 120_000 };

before(async () => {
  const end = Date.now() + 100_000;
  while (!(await fetch(`${oracle}/ok`).catch(() => ({}))).ok) {
    assert.ok(Date.now() < end, "langgraph dev is not ready");
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  await startAgent(base);
}, options);
after(stopAgent);

const channels = ["values", "checkpoints", "lifecycle", "input", "messages", "tools", "custom"];
const isBegin = ({ method, params }) => method === "lifecycle" && params.data.event === "running";
const isEnd = ({ method, params }) => method === "lifecycle" && params.data.event !== "running";

/** A thread on one of the servers. */
function open(apiUrl, transport) {
  const client = new Client({ apiUrl, apiKey: null });
  const webSocketFactory = (url) => new WebSocket(url);
  const thread = client.threads.stream(randomUUID(), { assistantId: "scripted", transport, webSocketFactory });
  /** Events of the newest run, up to its end. */
  const newest = async (run_id) => {
    const subscription = await thread.subscribe({ channels, namespaces: [[]], depth: 1 });
    const events = [];
    let begun = false;
    // An iteration pauses at the end of a run: there may be an earlier run before this one.
    while (!begun || !isEnd(events.at(-1))) {
      for await (const event of subscription) {
        begun ||= isBegin(event) && event.event_id.split(":")[1] === run_id;
        if (begun) events.push(event);
        if (begun && isEnd(event)) break;
      }
      if (!begun) await subscription.waitForResume();
    }
    return events;
  };
  const say = async (content) => {
    const input = { messages: [{ type: "human", id: randomUUID(), content }] };
    return newest((await thread.submitRun({ input, config: {} })).run_id);
  };
  const respond = async (events, response) => {
    const { interrupt_id } = events.find(({ method }) => method === "input.requested").params.data;
    const command = { id: 99, method: "input.respond", params: { namespace: [], interrupt_id, response } };
    const asked = await fetch(`${apiUrl}/threads/${thread.threadId}/commands`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(command),
    });
    const { type, result } = await asked.json();
    assert.equal(type, "success");
    return newest(result.run_id);
  };
  return { say, respond, close: () => thread.close() };
}

/** A value without its texts: its members, and what they are. */
const shape = (value) =>
  Array.isArray(value)
    ? value.map(shape)
    : value && typeof value === "object"
      ? Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, shape(inner)]).sort())
      : typeof value;

const textOf = (content) => (typeof content === "string" ? content : content.map(({ text = "" }) => text).join(""));

/** An event, with the differences between the servers left out. */
function grammar({ method, params, ...rest }) {
  const { namespace, data } = params;
  const members = [Object.keys(rest).sort(), Object.keys(params).sort()];
  // LangGraph's messages have their content as blocks, and members of the model.
  if (method === "values") return [method, members, data.messages.map(({ type, content }) => [type, textOf(content).trim()])];
  // The payload of an interrupt is the agent's own.
  if (method === "input.requested") return [method, members, namespace, Object.keys(data).sort()];
  return [method, members, namespace, data.event, data.role, shape(data)];
}

/** Events of which LangGraph's server has none here. */
const isOurs = ({ method }) => ["checkpoints", "tools", "input.answered"].includes(method);

function told(events) {
  const all = events.filter((event) => !isOurs(event)).map(grammar);
  // Each server sends values at its own steps: the last of several counts.
  return all.filter(([method], at) => method !== "values" || all[at + 1]?.[0] !== "values");
}

/** Fails if the numbers of the events do not grow, or if two have one id. */
function ordered(events) {
  assert.ok(events.every(({ seq }, at) => at === 0 || seq > events[at - 1].seq));
  assert.equal(new Set(events.map(({ event_id }) => event_id)).size, events.length);
}

for (const transport of ["sse", "websocket"]) {
  describe(`langgraph dev and Threadline over ${transport}`, () => {
    for (const words of ["say one two", "find parcels", "fail", "mail"]) {
      test(words, options, async () => {
        const servers = [open(oracle, transport), open(`${base}/langgraph`, transport)];
        const runs = await Promise.all(
          servers.map(async (server) => {
            const events = await server.say(words);
            return words === "mail" ? [events, await server.respond(events, { approved: true })] : [events];
          }),
        );
        runs.flat().forEach(ordered);
        const [expected, found] = runs.map((of) => of.map(told));
        assert.deepEqual(found, expected);
        await Promise.all(servers.map((server) => server.close()));
      });
    }
  });
}
