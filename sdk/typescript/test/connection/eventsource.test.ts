// An EventSource, which reconnects by the id of the last event alone: it never continues in the middle of another log.

import { EventSource } from "eventsource";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { Proxy } from "../harness/proxy.js";
import { Server } from "../harness/server.js";
import { until } from "../harness/until.js";
import { log, type Logged, makeThread, write } from "../harness/writer.js";

const USER = "ann";

let server: Server;
let proxy: Proxy;
beforeAll(async () => {
  server = await Server.start({ apiKey: "a key of more than 22 characters" });
  proxy = await Proxy.start(server);
});
afterAll(async () => {
  proxy?.end();
  await server?.end();
});

const opened: Stream[] = [];
afterEach(() => {
  proxy.refuse = false;
  for (const stream of opened.splice(0)) stream.source.close();
});

/** An EventSource, what it has received, and the status that ended it. */
class Stream {
  readonly source: EventSource;
  readonly received: { readonly seq?: number; readonly cursor?: number }[] = [];
  status: number | undefined;

  constructor(path: string, user = USER) {
    this.source = new EventSource(proxy.url + path, {
      fetch: (url, init) =>
        fetch(url, {
          ...init,
          headers: { ...init.headers, Authorization: `Bearer ${server.apiKey}`, "Threadline-User": user },
        }),
    });
    this.source.onmessage = ({ data }: { data: string }) =>
      void this.received.push(JSON.parse(data) as (typeof this.received)[number]);
    this.source.onerror = ({ code }) => (this.status = code);
    opened.push(this);
  }

  /** Waits until the source has ended for good. */
  async ended(): Promise<void> {
    await until("its end", () => this.source.readyState === EventSource.CLOSED);
  }
}

/** Does something while no stream reaches the server. */
async function away(work: () => Promise<unknown>): Promise<void> {
  proxy.refuse = true;
  proxy.cut();
  await work();
  proxy.refuse = false;
}

const events = (threadId: string) => `/v1/threads/${threadId}/events`;

test("continues after the last event if the log is the same", async () => {
  const threadId = await makeThread(server, undefined, USER);
  await write(server, threadId, { user: USER });
  const stream = new Stream(events(threadId));
  await until("the first run", () => stream.received.length === 14);
  await away(() => write(server, threadId, { user: USER }));
  await until("the second run", () => stream.received.length === 28);
  expect(stream.received).toEqual(await log(server, threadId, USER));
});

test("gets 410 if the thread was deleted and created again", async () => {
  const threadId = await makeThread(server, undefined, USER);
  await write(server, threadId, { user: USER });
  const stream = new Stream(events(threadId));
  await until("the first run", () => stream.received.length === 14);
  const seen: readonly Logged[] = await log(server, threadId, USER);
  await away(async () => {
    await server.request("DELETE", `/v1/threads/${threadId}`, { user: USER });
    await makeThread(server, threadId, USER);
    await write(server, threadId, { user: USER, deltas: 100 });
  });
  await stream.ended();
  expect(stream.status).toBe(410);
  expect(stream.received).toEqual(seen);
});

test("of the feed gets 410 if the user was erased and has come back", async () => {
  // A feed without the changes of other tests, which may still be written.
  const user = "bob";
  await makeThread(server, undefined, user);
  const stream = new Stream("/v1/feed", user);
  await until("the entry", () => stream.received.length === 1);
  const seen = stream.received.length;
  await away(async () => {
    await server.request("DELETE", `/v1/users/${user}`);
    for (let made = 0; made < seen + 3; made += 1) await makeThread(server, undefined, user);
    await until("a feed that is as long", async () => {
      const page = await server.request<{ cursor: number }>("GET", "/v1/feed", { user });
      return page.cursor > seen;
    });
  });
  await stream.ended();
  expect(stream.status).toBe(410);
  expect(stream.received).toHaveLength(seen);
});

test("gets 410 if the server has lost what it has seen", async () => {
  const threadId = await makeThread(server, undefined, USER);
  await write(server, threadId, { user: USER });
  await server.save();
  await write(server, threadId, { user: USER });
  const stream = new Stream(events(threadId));
  await until("both runs", () => stream.received.length === 28);
  await away(async () => {
    await server.lose();
    await write(server, threadId, { user: USER, deltas: 100 });
  });
  await stream.ended();
  expect(stream.status).toBe(410);
  expect(stream.received).toHaveLength(28);
});
