import "./dom.js";
import { cleanup } from "@testing-library/react";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { ProblemError, type Threadline } from "../../src/index.js";
import { Proxy } from "../harness/proxy.js";
import { Server } from "../harness/server.js";
import { until } from "../harness/until.js";
import { makeThread, write } from "../harness/writer.js";
import { connect, listPage, names } from "./page.js";

let server: Server;
let proxy: Proxy;
beforeAll(async () => {
  server = await Server.start({ apiKey: "the-operator-of-the-tests" });
  proxy = await Proxy.start(server);
});
afterAll(async () => {
  proxy?.end();
  await server?.end();
});

let user: string;
let number = 0;
const clients: Threadline[] = [];
beforeEach(() => {
  user = `user-${(number += 1)}`;
});
afterEach(() => {
  cleanup();
  for (const client of clients.splice(0)) client.close();
});

function client(url = server.url, reads = 60_000): Threadline {
  const made = connect({ url, apiKey: "the-operator-of-the-tests", user, retries: { reads } });
  clients.push(made);
  return made;
}

describe("two pages with separate clients", () => {
  test("show the same threads, whatever either does", async () => {
    const [here, there] = [listPage(client()), listPage(client())];
    await Promise.all([here, there].map((page) => page.until("loaded", ({ isLoading }) => !isLoading)));
    expect(here.now.threads).toEqual([]);

    const one = await here.do(({ createThread }) => createThread({ name: "one" }));
    expect(names(here.now)).toEqual(["one"]);
    const two = await there.do(({ createThread }) => createThread({ name: "two" }));
    expect(names(there.now)).toEqual(["two", "one"]);
    await here.until("both", (now) => now.threads.length === 2);

    await here.do(({ renameThread }) => renameThread(one.threadId, "first"));
    expect(names(here.now)).toEqual(["first", "two"]);
    await there.until("the name", (now) => names(now).join() === "first,two");

    await write(server, two.threadId, { user });
    await here.until("the run to move it up", (now) => names(now).join() === "two,first");

    await there.do(({ archiveThread }) => archiveThread(one.threadId));
    expect(names(there.now)).toEqual(["two"]);
    await here.until("it to leave", (now) => names(now).join() === "two");
    await here.do(({ unarchiveThread }) => unarchiveThread(one.threadId));
    expect(names(here.now)).toContain("first");
    await there.until("it to come back", (now) => now.threads.length === 2);

    await here.do(({ deleteThread }) => deleteThread(two.threadId));
    expect(names(here.now)).toEqual(["first"]);
    await there.until("it to be gone", (now) => names(now).join() === "first");
    const list = await server.request<{ threads: { threadId: string }[] }>("GET", "/v1/threads", { user });
    expect(here.now.threads).toEqual(list.threads);
    expect(there.now.threads).toEqual(list.threads);
  });

  test("show archived threads and those of other agents only on request", async () => {
    const shared = client();
    const all = listPage(shared, { includeArchived: true });
    const mine = listPage(shared, { agentId: "mine" });
    await Promise.all([all, mine].map((page) => page.until("loaded", ({ isLoading }) => !isLoading)));
    const made = await mine.do(({ createThread }) => createThread({ name: "mine" }));
    expect(made.agentId).toBe("mine");
    await all.do(({ createThread }) => createThread({ name: "other", agentId: "other" }));
    await all.do(({ archiveThread }) => archiveThread(made.threadId));
    expect(names(all.now).sort()).toEqual(["mine", "other"]);
    expect(all.now.threads.find(({ name }) => name === "mine")?.archived).toBe(true);
    await mine.until("it to leave", (now) => now.threads.length === 0);
    // A request that changes nothing has no feed entry to wait for.
    await all.do(({ archiveThread }) => archiveThread(made.threadId));
    await mine.do(({ archiveThread }) => archiveThread(made.threadId));
    await mine.do(({ deleteThread }) => deleteThread(made.threadId));
    await mine.do(({ deleteThread }) => deleteThread(made.threadId));
    await all.until("it to be gone", (now) => names(now).join() === "other");
  });
});

test("two components, mounted twice by StrictMode, are one request and one subscription", async () => {
  const through = client(proxy.url);
  proxy.requests.length = 0;
  const pages = [listPage(through), listPage(through)];
  for (const page of pages) await page.until("loaded", ({ isLoading }) => !isLoading);
  await pages[0]!.do(({ createThread }) => createThread({ name: "x" }));
  expect(pages.map(({ now }) => names(now))).toEqual([["x"], ["x"]]);
  expect(pages[0]!.now.threads).toBe(pages[1]!.now.threads);
  expect(proxy.requests.filter((request) => request.startsWith("GET /v1/threads"))).toHaveLength(1);
  expect(proxy.requests.filter((request) => request.startsWith("GET /v1/socket"))).toHaveLength(1);
  for (const page of pages) page.leave();
  await until("the socket to be closed", () => proxy.open("/v1/socket") === 0);
});

test("pages are complete while threads are moved, created and deleted", async () => {
  const ids: string[] = [];
  for (let made = 0; made < 25; made += 1) ids.push(await makeThread(server, `${user}-${made}`, user));
  const page = listPage(client(), { limit: 10 });
  await page.until("loaded", ({ isLoading }) => !isLoading);
  expect(page.now.threads).toHaveLength(10);
  expect(page.now.hasMoreThreads).toBe(true);
  const change = (path: string, body: object) => server.request("PATCH", `/v1/threads/${path}`, { user, body });
  const changes = [
    change(ids[0]!, { name: "moved" }),
    change(ids[12]!, { name: "also" }),
    server.request("DELETE", `/v1/threads/${ids[24]!}`, { user }),
    makeThread(server, `${user}-new`, user),
  ];
  await page.do(({ fetchMoreThreads }) => Promise.all([fetchMoreThreads(), fetchMoreThreads()]));
  await Promise.all(changes);
  while (page.now.hasMoreThreads) await page.do(({ fetchMoreThreads }) => fetchMoreThreads());
  const order = async () => {
    const list = await server.request<{ threads: { threadId: string }[] }>("GET", "/v1/threads?limit=100", { user });
    return list.threads.map(({ threadId }) => threadId).join();
  };
  const expected = await order();
  await page.until("the server's order", (now) => now.threads.map(({ threadId }) => threadId).join() === expected);
  expect(page.now.threads).toHaveLength(25);
});

test("changes that arrive while a page is loading are newer than the page", async () => {
  for (let made = 0; made < 4; made += 1) await makeThread(server, `${user}-${made}`, user);
  // Responses to list requests arrive when the test releases them.
  let held: (() => void)[] | undefined;
  const slow: typeof fetch = async (input, init) => {
    const answer = await fetch(input, init);
    if (held && new URL(String(input)).pathname === "/v1/threads") {
      await new Promise<void>((resolve) => held!.push(resolve));
    }
    return answer;
  };
  const made = connect({ url: server.url, apiKey: "the-operator-of-the-tests", user, fetch: slow });
  clients.push(made);
  const page = listPage(made, { limit: 2 });
  await page.until("loaded", ({ isLoading }) => !isLoading);

  const whileOnItsWay = async (load: () => Promise<unknown>, changes: () => Promise<unknown>, seen: () => unknown) => {
    held = [];
    const loading = load();
    await until("the answer", () => held!.length === 1);
    await changes();
    await page.until("the changes", seen);
    held.forEach((release) => release());
    held = undefined;
    await loading;
  };
  const patch = (at: number, name: string) =>
    server.request("PATCH", `/v1/threads/${user}-${at}`, { user, body: { name } });

  await whileOnItsWay(
    () => page.do(({ fetchMoreThreads }) => fetchMoreThreads()),
    () => Promise.all([patch(0, "moved up"), server.request("DELETE", `/v1/threads/${user}-1`, { user })]),
    () => names(page.now).includes("moved up"),
  );
  const listed = async () =>
    (await server.request<{ threads: unknown[] }>("GET", "/v1/threads", { user })).threads.slice(0, 3);
  let now = await listed();
  expect(now).toHaveLength(3);
  await page.until("the server's list", ({ threads }) => JSON.stringify(threads) === JSON.stringify(now));

  const other: ReturnType<typeof listPage>[] = [];
  await whileOnItsWay(
    async () => {
      other.push(listPage(made, { includeArchived: true }));
      await other[0]!.until("loaded", ({ isLoading }) => !isLoading);
    },
    () => patch(3, "newer"),
    () => names(page.now).includes("newer"),
  );
  now = await listed();
  expect(other[0]!.now.threads).toEqual(now);
});

test("a refused change rejects, and is shown as the error until the next success", async () => {
  const page = listPage(client());
  await page.until("loaded", ({ isLoading }) => !isLoading);
  const refused = await page.do(({ renameThread }) =>
    renameThread("nobody-has-it", "x").catch((error: unknown) => error),
  );
  expect(refused).toBeInstanceOf(ProblemError);
  expect((refused as ProblemError).slug).toBe("thread-not-found");
  expect(page.now.error).toBe(refused);
  await page.do(({ createThread }) => createThread());
  expect(page.now.error).toBeNull();
});

test("a list continues after the server was unreachable", async () => {
  const page = listPage(client());
  await page.until("loaded", ({ isLoading }) => !isLoading);
  await page.do(({ createThread }) => createThread({ name: "before" }));
  await server.kill();
  await server.restart();
  await server.request("POST", "/v1/threads", { user, body: { threadId: `${user}-x`, name: "after" } });
  await page.until("the new one", (now) => names(now).join() === "after,before");
});
