import { afterEach, describe, expect, test, vi } from "vitest";
import { STREAMS_IN_BROWSER } from "../../src/limits.js";
import { server, useServer } from "../harness/served.js";
import { until } from "../harness/until.js";
import { log, makeThread, write } from "../harness/writer.js";
import { behind } from "./network.js";
import { expectExactly, Reader } from "./reader.js";

useServer();
afterEach(() => void vi.unstubAllGlobals());

/** Counts requests in progress: streams until they are abandoned, others until they are read. */
function counted() {
  let now = 0;
  let most = 0;
  const send: typeof fetch = async (input, init) => {
    now += 1;
    most = Math.max(most, now);
    let counts = true;
    const done = () => {
      if (counts) now -= 1;
      counts = false;
    };
    init?.signal?.addEventListener("abort", done);
    const response = await fetch(input, init).catch((error) => {
      done();
      throw error;
    });
    if (response.headers.get("Content-Type") === "text/event-stream") return response;
    const { status, headers } = response;
    return new Response(await response.arrayBuffer().finally(done), { status, headers });
  };
  return { fetch: send, most: () => most };
}

// Like a browser, which allows six requests to one server.
describe.each(["sse", "long-poll"] as const)("many threads over %s", (transport) => {
  test("few concurrent requests, and every subscription has a turn", async () => {
    vi.stubGlobal("document", Object.assign(new EventTarget(), { visibilityState: "visible" }));
    const threads = await Promise.all(Array.from({ length: 3 * STREAMS_IN_BROWSER }, () => makeThread(server)));
    for (const threadId of threads) await write(server, threadId, { deltas: 3 });
    const requests = counted();
    const [client] = await behind(server, { transports: [transport], fetch: requests.fetch });
    const readers = threads.map((threadId) => new Reader(client, threadId));
    await until(
      "all live",
      () => readers.every((reader) => reader.count("caughtUp") === 1),
      () => client.status,
    );
    await Promise.all(threads.map((threadId) => write(server, threadId, { deltas: 5, paceMs: 50 })));
    const logs = await Promise.all(threads.map((threadId) => log(server, threadId)));
    const whole = () => readers.every((reader, index) => reader.events.length >= logs[index]!.length);
    await until("everything everywhere", whole, () => readers.map((reader) => reader.events.length));
    readers.forEach((reader, index) => expectExactly(reader.events, logs[index]!));
    // The turns are not visible to the listener.
    for (const reader of readers) {
      expect(reader.items.map(({ type }) => type).filter((type) => type !== "events")).toEqual(["hello", "caughtUp"]);
    }
    expect(requests.most()).toBe(STREAMS_IN_BROWSER);
  });
});
