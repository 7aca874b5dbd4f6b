import { afterEach, describe, expect, test } from "vitest";
import type { Threadline } from "../../src/index.js";
import { server, useServer } from "../harness/served.js";
import { until } from "../harness/until.js";
import { log, makeThread, write } from "../harness/writer.js";
import { connect, expectExactly, Reader, TRANSPORTS } from "./reader.js";

useServer();

let client: Threadline;
afterEach(() => client.close());

describe.each(TRANSPORTS)("over %s", (transport) => {
  test("stored events, then live ones, each event once", async () => {
    const threadId = await makeThread(server);
    await write(server, threadId, { deltas: 30 });
    client = connect({ url: server.url, transports: [transport] });
    const reader = new Reader(client, threadId);
    await until(
      "live",
      () => reader.count("caughtUp") === 1,
      () => client.status,
    );
    expect(client.status).toEqual({ state: "live", transport });
    expectExactly(reader.events, await log(server, threadId));
    await write(server, threadId, { deltas: 30, paceMs: 1 });
    const all = await log(server, threadId);
    await until("the second run", () => reader.events.length === all.length);
    expectExactly(reader.events, all);
    expect(reader.followed.cursor).toBe(all.length);
    expect(reader.items.map(({ type }) => type).filter((type) => type !== "events")).toEqual(["hello", "caughtUp"]);
  });

  test("large events, and events with all kinds of characters", async () => {
    const threadId = await makeThread(server);
    const text = (size: number) => "wörd 💬\u2028\r\n\u0000\ud800".repeat(size);
    const events = [100, 20_000, 1, 100_000].map((size) => ({ type: "CUSTOM", name: "large", value: text(size) }));
    await server.request("PUT", `/v1/threads/${threadId}/runs/r`, { body: events });
    client = connect({ url: server.url, transports: [transport] });
    const reader = new Reader(client, threadId);
    await until(
      "all of it",
      () => reader.count("caughtUp") === 1,
      () => [reader.error, client.status],
    );
    expectExactly(reader.events, await log(server, threadId));
  });

  test("the feed from a cursor, as an iterator", async () => {
    const list = await server.request<{ feedCursor: number; feedEpoch: string }>("GET", "/v1/threads");
    const { feedCursor: after, feedEpoch: epoch } = list;
    const [first, second] = [await makeThread(server), await makeThread(server)];
    client = connect({ url: server.url, transports: [transport] });
    const seen: string[] = [];
    let named = false;
    for await (const item of client.feed({ after, epoch })) {
      if (item.type !== "entries") continue;
      for (const { type, threadId, thread } of item.entries)
        seen.push(`${type} ${threadId} ${thread?.name ?? ""}`.trim());
      if (!named && seen.includes(`upsert ${first}`) && seen.includes(`upsert ${second}`)) {
        named = true;
        await server.request("PATCH", `/v1/threads/${first}`, { body: { name: "named" } });
        await server.request("DELETE", `/v1/threads/${second}`);
      }
      if (seen.includes(`delete ${second}`) && seen.includes(`upsert ${first} named`)) break;
    }
    const other = client.feed({ after: 2 ** 50, epoch: "0123456789abcdef" });
    await expect(other.next()).rejects.toMatchObject({ slug: "log-replaced" });
    const ofNone = client.feed({ after: 1 });
    await expect(ofNone.next()).rejects.toMatchObject({ slug: "invalid-cursor" });
  });
});
