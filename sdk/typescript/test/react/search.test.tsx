import "./dom.js";
import { cleanup } from "@testing-library/react";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { type ProblemError, type Threadline, type ThreadlineOptions } from "../../src/index.js";
import { Server } from "../harness/server.js";
import { makeThread, write } from "../harness/writer.js";
import { connect, listPage, names } from "./page.js";

let server: Server;
beforeAll(async () => {
  server = await Server.start({ apiKey: "the-operator-of-the-tests" });
});
afterAll(() => server?.end());

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

function client(options: Partial<ThreadlineOptions> = {}): Threadline {
  const made = connect({ url: server.url, apiKey: "the-operator-of-the-tests", user, ...options });
  clients.push(made);
  return made;
}

const make = (threadId: string, name: string) =>
  server.request("POST", "/v1/threads", { user, body: { threadId: `${user}-${threadId}`, name } });
const rename = (threadId: string, name: string | null) =>
  server.request("PATCH", `/v1/threads/${user}-${threadId}`, { user, body: { name } });

test("a search shows all matches, including later ones", async () => {
  await make("a", "Reise nach ATHEN");
  await make("b", "Einkauf");
  const page = listPage(client(), { search: " athen " });
  await page.until("loaded", ({ isLoading }) => !isLoading);
  expect(names(page.now)).toEqual(["Reise nach ATHEN"]);

  await make("c", "Athen im Mai");
  await page.until("a new one", (now) => names(now).join() === "Athen im Mai,Reise nach ATHEN");
  await rename("b", "Einkauf in Athen");
  await page.until("one that is named so", (now) => names(now).length === 3);
  await rename("a", "Reise nach Rom");
  await page.until("one that is not any more", (now) => names(now).join() === "Einkauf in Athen,Athen im Mai");
  await rename("c", null);
  await page.until("one without a name", (now) => names(now).join() === "Einkauf in Athen");
  await write(server, `${user}-a`, { user });

  // A change made by the page itself resolves when the list shows it, or never will.
  const made = await page.do(({ createThread }) => createThread({ name: "athen" }));
  expect(names(page.now)).toEqual(["athen", "Einkauf in Athen"]);
  await page.do(({ createThread }) => createThread({ name: "Rom" }));
  await page.do(({ renameThread }) => renameThread(made.threadId, "Sparta"));
  expect(names(page.now)).toEqual(["Einkauf in Athen"]);
  await page.do(({ archiveThread }) => archiveThread(`${user}-b`));
  expect(page.now).toMatchObject({ threads: [], hasMoreThreads: false, error: null });
});

test("another text is another list, and white space is ignored", async () => {
  for (const [at, name] of ["one", "two", "twice"].entries()) await make(String(at), name);
  const shared = client();
  const page = listPage(shared, { search: "TW" });
  await page.until("two", (now) => names(now).join() === "twice,two");
  page.show({ search: " TW" });
  expect(names(page.now)).toEqual(["twice", "two"]);
  page.show({ search: "on" });
  await page.until("one", (now) => names(now).join() === "one");
  page.show({ search: " " });
  await page.until("all", (now) => names(now).join() === "twice,two,one");
  page.show({ search: "x".repeat(1_025) });
  await page.until("the refusal", ({ error }) => error);
  expect((page.now.error as ProblemError).slug).toBe("invalid-request");
});

test("a page of a search may be empty although the next one is not", async () => {
  for (let at = 0; at < 6; at += 1) await make(String(at), at % 2 ? `odd ${at}` : `even ${at}`);
  await makeThread(server, `${user}-nameless`, user);
  // A server that checks two names per page: the real one would need 10,000 threads.
  // The names found, by the page's cursor: a page may be requested more than once.
  const pages = new Map<string, string>();
  const short: typeof fetch = async (input, init) => {
    const url = new URL(String(input));
    if (!url.searchParams.has("search")) return fetch(input, init);
    const search = url.searchParams.get("search")!;
    const cursor = url.searchParams.get("cursor") ?? "the first";
    url.searchParams.delete("search");
    url.searchParams.set("limit", "2");
    const page = (await (await fetch(url, init)).json()) as { threads: { name: string | null }[] };
    const threads = page.threads.filter(({ name }) => name?.includes(search));
    if (!pages.has(cursor)) pages.set(cursor, threads.map(({ name }) => name).join());
    return Response.json({ ...page, threads });
  };
  const page = listPage(client({ fetch: short }), { search: "even 0" });
  await page.until("loaded", ({ isLoading }) => !isLoading);
  expect(page.now).toMatchObject({ threads: [], hasMoreThreads: true });
  // Renamed far after the checked names: a match is shown nevertheless.
  await write(server, `${user}-nameless`, { user });
  await rename("nameless", "not even 0");
  await page.until("what was renamed", (now) => names(now).join() === "not even 0");
  expect(page.now.hasMoreThreads).toBe(true);
  // Each call loads one page, and the last one has the match.
  for (const loaded of [2, 3, 4]) {
    expect(page.now.hasMoreThreads).toBe(true);
    await page.do(({ fetchMoreThreads }) => fetchMoreThreads());
    expect(pages.size).toBe(loaded);
  }
  expect([...pages.values()]).toEqual(["", "", "", "even 0"]);
  await page.until("the end", ({ hasMoreThreads }) => !hasMoreThreads);
  expect(names(page.now)).toEqual(["not even 0", "even 0"]);
});
