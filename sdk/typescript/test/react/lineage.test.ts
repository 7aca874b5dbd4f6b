// Stores of threads at a server that has lost commits: its database is replaced by an earlier copy.

import { afterEach, expect, test } from "vitest";
import { storesOf } from "../../src/react/stores.js";
import type { Threadline } from "../../src/index.js";
import { server, useServer } from "../harness/served.js";
import { until } from "../harness/until.js";
import { makeThread, write } from "../harness/writer.js";
import { connect } from "./page.js";

useServer();

let client: Threadline;
afterEach(() => client.close());

async function open(threadId: string) {
  client = connect({ url: server.url });
  const store = storesOf(client).thread(threadId);
  const leave = store.subscribe(() => {});
  await until("the thread", () => !store.getSnapshot().isLoading);
  return { store, leave, ids: () => store.getSnapshot().messages.map(({ id }) => id) };
}

test("a thread that has lost nothing stays as it is, and continues to show its record", async () => {
  const threadId = await makeThread(server);
  await write(server, threadId, { runId: "kept" });
  const { store, leave, ids } = await open(threadId);
  const loading: boolean[] = [];
  store.subscribe(() => loading.push(store.getSnapshot().isLoading));
  await server.save();
  await write(server, await makeThread(server));
  await server.lose();
  await write(server, threadId, { runId: "new" });
  await until("the new run", () => ids().length === 2);
  await server.request("PATCH", `/v1/threads/${threadId}`, { body: { name: "renamed" } });
  await until("the new name", () => store.getSnapshot().thread?.name === "renamed");
  expect(ids()).toEqual(["kept-text", "new-text"]);
  expect(store.getSnapshot()).toMatchObject({ error: null, run: { runId: "new", status: "finished" } });
  expect(loading).not.toContain(true);
  leave();
});

test("a thread that has lost events is loaded again", async () => {
  const threadId = await makeThread(server);
  await write(server, threadId, { runId: "kept" });
  await server.save();
  await write(server, threadId, { runId: "lost" });
  const { store, leave, ids } = await open(threadId);
  expect(ids()).toEqual(["kept-text", "lost-text"]);
  await server.lose();
  await until("what is left", () => ids().length === 1);
  await write(server, threadId, { runId: "new" });
  await until("the new run", () => ids().length === 2);
  expect(ids()).toEqual(["kept-text", "new-text"]);
  expect(store.getSnapshot().error).toBeNull();
  leave();
});
