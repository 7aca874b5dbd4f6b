import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { Threadline } from "../../src/index.js";
import { Server } from "../harness/server.js";
import { until } from "../harness/until.js";
import { log, makeThread, write } from "../harness/writer.js";
import { connect, expectExactly, Reader, TRANSPORTS } from "./reader.js";

let server: Server;
beforeAll(async () => {
  server = await Server.start();
});
afterAll(() => server?.end());

let client: Threadline;
afterEach(() => client.close());

describe.each(TRANSPORTS)("over %s", (transport) => {
  test("history, then what comes, each event once", async () => {
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
});
