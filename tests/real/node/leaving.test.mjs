// A stock AG-UI client that leaves: it can only abort its request.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import net from "node:net";
import { describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { HttpAgent } from "@ag-ui/client";
import { agree, base, events, get, log, open, post, put, reload, user, warnings } from "./support.mjs";

const options = { timeout: 60_000 };

// The client cancels a body that has already failed and ignores the error of that; the test runner would report it.
const { cancel } = ReadableStreamDefaultReader.prototype;
ReadableStreamDefaultReader.prototype.cancel = function (reason) {
  return cancel.call(this, reason).catch((error) => {
    if (error.message !== "terminated") throw error;
  });
};

/** An agent of this kind, for one test. */
async function agent(onDisconnect) {
  const name = `${onDisconnect}-${randomUUID()}`;
  await put(`/v1/agents/${name}`, { kind: "demo", onDisconnect });
  return name;
}

const runOf = async (threadId, runId) =>
  (await get(`/v1/threads/${threadId}/runs`)).runs.find((run) => run.runId === runId);

/** How a run has ended. */
async function ended(threadId, runId) {
  for (let tries = 0; tries < 400; tries++) {
    const { status, endedAt } = await runOf(threadId, runId);
    if (endedAt) return status;
    await sleep(50);
  }
  assert.fail("it does not end");
}

/** Runs until `count` events have come, then calls `then`. Returns the client's error, or undefined if there was none. */
async function runUntil(client, runId, count, then) {
  let seen = 0;
  const watch = { onEvent: () => void (++seen === count && then()) };
  const failed = await client.runAgent({ runId }, watch).then(() => undefined, (error) => error);
  assert.ok(seen >= count);
  return failed;
}

/** A way to the server that can be cut: whole, or only on the client's side. */
async function proxy() {
  const pairs = [];
  const { hostname, port } = new URL(base);
  const server = net.createServer((near) => {
    const far = net.connect(Number(port), hostname);
    near.on("data", (bytes) => far.write(bytes));
    far.on("data", (bytes) => near.destroyed || near.write(bytes));
    for (const socket of [near, far]) socket.on("error", () => {});
    far.on("close", () => near.destroy());
    pairs.push({ near, far });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const close = () => {
    pairs.forEach(({ near, far }) => (near.destroy(), far.destroy()));
    server.close();
  };
  return { base: `http://127.0.0.1:${server.address().port}`, pairs, close };
}

const through = (way, agent) => new HttpAgent({ url: `${way.base}/agui/${agent}`, threadId: randomUUID() });

describe("a client that leaves", { concurrency: true }, () => {
  test("continue: an aborted run continues, and its client receives the conflict and later all of it", options, async () => {
    const name = await agent("continue");
    const client = open(name);
    client.addMessage(user("Good morning"));
    const runId = randomUUID();
    await runUntil(client, runId, 10, () => client.abortRun());
    // The client has the beginning. Its next message is refused with the active run's id.
    client.addMessage(user("And then?"));
    const refused = await client.runAgent().then(() => assert.fail("it was let in"), (error) => error);
    assert.equal(refused.status, 409);
    assert.match(refused.message, /Active run conflict/);
    assert.equal(JSON.parse(refused.payload).run.runId, runId);
    assert.equal(await ended(client.threadId, runId), "finished");
    const reloaded = await reload(name, client.threadId);
    assert.ok(reloaded.messages.length > client.messages.length, "more than the client has seen");
    reloaded.addMessage(user("And then?"));
    await reloaded.runAgent();
    await agree(reloaded);
  });

  test("continue: a stop of the run by its id ends it for all followers", options, async () => {
    const client = open(await agent("continue"));
    client.addMessage(user("long"));
    const runId = randomUUID();
    const stop = () => post(`/v1/threads/${client.threadId}/runs/${runId}/stop`, {});
    assert.equal(await runUntil(client, runId, 10, stop), undefined);
    assert.equal(await ended(client.threadId, runId), "stopped");
    await agree(client);
  });

  test("stop: an aborted run is stopped, and its client continues", options, async () => {
    const name = await agent("stop");
    const client = open(name);
    client.addMessage(user("long"));
    const runId = randomUUID();
    await runUntil(client, runId, 10, () => client.abortRun());
    assert.equal(await ended(client.threadId, runId), "stopped");
    const last = (await log(client.threadId)).at(-1).event;
    assert.deepEqual([last.type, last.runId], ["RUN_FINISHED", runId]);
    client.addMessage(user("Good morning"));
    await client.runAgent();
    const all = await log(client.threadId);
    assert.equal(all.at(-1).event.type, "RUN_FINISHED");
    assert.equal(all.filter(({ event }) => event.type === "RUN_STARTED").length, 2);
  });

  test("stop: a client that only follows may leave", options, async () => {
    const client = open(await agent("stop"));
    const asked = user("Good morning");
    client.addMessage(asked);
    const runId = randomUUID();
    const listener = open(client.url.split("/").at(-1), client.threadId, { initialMessages: [asked] });
    let left;
    const listen = () => (left = runUntil(listener, runId, 5, () => listener.abortRun()));
    assert.equal(await runUntil(client, runId, 5, listen), undefined);
    await left;
    assert.equal(await ended(client.threadId, runId), "finished");
    await agree(client);
  });

  for (const [onDisconnect, status] of [["continue", "finished"], ["stop", "stopped"]]) {
    test(`${onDisconnect}: a proxy that cuts the connection is a client that leaves`, options, async () => {
      const way = await proxy();
      const client = through(way, await agent(onDisconnect));
      const asked = user(status === "finished" ? "Good morning" : "long");
      client.addMessage(asked);
      const runId = randomUUID();
      const cut = () => way.pairs.forEach(({ near, far }) => (near.destroy(), far.destroy()));
      const failed = await runUntil(client, runId, 10, cut);
      assert.ok(failed, "half an answer is not treated as a whole one");
      assert.equal(await ended(client.threadId, runId), status);
      // The same run again returns all of it, also events that came without a client.
      const again = new HttpAgent({ url: client.url, threadId: client.threadId, initialMessages: [asked] });
      await again.runAgent({ runId });
      await agree(again);
      way.close();
    });
  }

  test("stop: behind a proxy that does not pass it on, leaving is not noticed", options, async () => {
    const way = await proxy();
    const client = through(way, await agent("stop"));
    client.addMessage(user("Good morning"));
    const runId = randomUUID();
    await runUntil(client, runId, 10, () => client.abortRun());
    assert.equal(await ended(client.threadId, runId), "finished");
    way.close();
  });

  test("a request that is repeated with what was seen gets the rest, byte for byte", options, async () => {
    const name = await agent("continue");
    const threadId = randomUUID();
    const body = JSON.stringify({ threadId, runId: randomUUID(), messages: [user("Good morning")] });
    const ask = (seen) =>
      fetch(`${base}/agui/${name}`, {
        method: "POST",
        headers: { "Content-Type": "application/json", ...(seen && { "Last-Event-ID": seen }) },
        body,
      });
    const whole = await (await ask()).text();
    const at = Math.floor(events(whole).length / 2);
    const ids = [...whole.matchAll(/^id: (.*)$/gm)].map(([, id]) => id);
    const rest = await (await ask(ids[at])).text();
    assert.ok(rest && whole.endsWith(rest));
    assert.equal(events(rest)[0][0], events(whole)[at][0] + 1);
    assert.deepEqual(warnings, []);
  });
});
