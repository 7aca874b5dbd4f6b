// Readers of a server that has lost commits: its database is replaced by an earlier copy.

import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { commonCursor, isProblem, type Threadline } from "../../src/index.js";
import { Server } from "../harness/server.js";
import { until } from "../harness/until.js";
import { epochOf, log, makeThread, write } from "../harness/writer.js";
import { connect, expectExactly, Reader, TRANSPORTS } from "./reader.js";

let server: Server;
const clients: Threadline[] = [];
beforeAll(async () => {
  server = await Server.start();
});
afterAll(() => server?.end());
afterEach(() => {
  for (const client of clients.splice(0)) client.close();
});

function open(transport: (typeof TRANSPORTS)[number]): Threadline {
  const client = connect({ url: server.url, transports: [transport] });
  clients.push(client);
  return client;
}

describe.each(TRANSPORTS)("%s", (transport) => {
  test("a reader that has seen nothing of what was lost continues under the new epoch", async () => {
    const threadId = await makeThread(server);
    await write(server, threadId);
    const before = await epochOf(server, threadId);
    const reader = new Reader(open(transport), threadId);
    await until("caught up", () => reader.count("caughtUp") > 0);
    await server.save();
    // Something is lost, though not from this thread.
    await write(server, await makeThread(server));
    await server.lose();
    await write(server, threadId);
    const after = await epochOf(server, threadId);
    expect(after).not.toBe(before);
    await until("the second run", () => reader.events.length === 28 || reader.error !== undefined);

    expect(reader.error).toBeUndefined();
    expectExactly(reader.events, await log(server, threadId));
    expect(reader.items.filter(({ type }) => type === "rebased")).toEqual([
      { type: "rebased", from: before, epoch: after, after: 14 },
    ]);
    expect(reader.followed.epoch).toBe(after);

    // A reader that comes later with the epoch before is answered in the same way.
    const late = new Reader(open(transport), threadId, { after: 3, epoch: before });
    await until("all events", () => late.followed.cursor === 28 || late.error !== undefined);
    expect(late.error).toBeUndefined();
    expectExactly(late.events, (await log(server, threadId)).slice(3));
    expect(late.items.slice(0, 2).map(({ type }) => type)).toEqual(["hello", "rebased"]);
    expect(late.followed.epoch).toBe(after);
  });

  test("a reader that has seen what was lost is told so, and continues after what both logs have in common", async () => {
    const threadId = await makeThread(server);
    await write(server, threadId);
    await server.save();
    await write(server, threadId, { runId: "lost" });
    const reader = new Reader(open(transport), threadId);
    const early = new Reader(open(transport), threadId, { after: 14, epoch: await epochOf(server, threadId) });
    await until("all events", () => reader.events.length === 28 && early.events.length === 14);
    await server.lose();
    await until("both end", () => reader.error !== undefined && early.error !== undefined);
    await write(server, threadId);
    const late = new Reader(open(transport), threadId, { after: 28, epoch: early.followed.epoch! });
    await until("the late one ends", () => late.error !== undefined);

    for (const { error } of [reader, early, late]) {
      expect(isProblem(error, "log-replaced") && error.problem["commonUpTo"]).toBe(14);
    }
    for (const { error } of [reader, late]) {
      const common = commonCursor(error)!;
      const kept = reader.events.filter(({ seq }) => seq <= common.after);
      const again = new Reader(open(transport), threadId, common);
      await until("all events", () => again.followed.cursor === 28 || again.error !== undefined);
      expectExactly([...kept, ...again.events], await log(server, threadId));
    }
  });

  test("a thread that was created again has nothing in common with its cursor", async () => {
    const threadId = await makeThread(server);
    await write(server, threadId);
    const epoch = await epochOf(server, threadId);
    await server.request("DELETE", `/v1/threads/${threadId}`);
    await makeThread(server, threadId);
    const reader = new Reader(open(transport), threadId, { after: 3, epoch });
    await until("its end", () => reader.error !== undefined);
    expect(isProblem(reader.error, "log-replaced")).toBe(true);
    expect(commonCursor(reader.error)).toBeUndefined();
  });
});
