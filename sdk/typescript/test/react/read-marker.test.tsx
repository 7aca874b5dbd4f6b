import "./dom.js";
import { cleanup } from "@testing-library/react";
import { expect, test } from "vitest";
import { isUnread, type Threadline, type ThreadlineOptions } from "../../src/index.js";
import { closedAfterEach, server, useServer } from "../harness/served.js";
import { until } from "../harness/until.js";
import { makeThread, write } from "../harness/writer.js";
import { connect, listPage, type ListPage, type ThreadPage, threadPage } from "./page.js";

useServer();

const clients = closedAfterEach(cleanup);

function client(options: Partial<ThreadlineOptions> = {}): Threadline {
  const made = connect({ url: server.url, ...options });
  clients.push(made);
  return made;
}

/** Intercepts read markers, and may delay or refuse them. */
class Marks {
  /** The seqs sent. */
  readonly sent: number[] = [];
  under: "way" | "hold" | "refuse" = "way";
  #held: (() => void)[] = [];

  readonly fetch: typeof fetch = async (input, init) => {
    if (!new URL(String(input)).pathname.endsWith("/read")) return fetch(input, init);
    this.sent.push((JSON.parse(String(init!.body)) as { seq: number }).seq);
    if (this.under === "hold") await new Promise<void>((resolve) => this.#held.push(resolve));
    if (this.under === "refuse") return Response.json({ type: "/problems/forbidden", status: 403 }, { status: 403 });
    return fetch(input, init);
  };

  release(): void {
    this.under = "way";
    for (const go of this.#held.splice(0)) go();
  }
}

const live = (page: ThreadPage) => page.until("everything that there is", ({ isLoading }) => !isLoading);
const shows = (page: ListPage, threadId: string, unread: boolean) =>
  page.until(unread ? "unread" : "read", ({ threads }) => {
    const thread = threads.find((thread) => thread.threadId === threadId);
    return thread && thread.tail > 0 && isUnread(thread) === unread;
  });

test("shown events are marked as read once, and other pages receive the marker", async () => {
  const threadId = await makeThread(server);
  await write(server, threadId);
  const elsewhere = listPage(client());
  await shows(elsewhere, threadId, true);

  const marks = new Marks();
  const page = threadPage(client({ fetch: marks.fetch }), threadId);
  // No event has been shown yet.
  await page.do(({ markRead }) => markRead());
  expect(marks.sent).toEqual([]);
  await live(page);
  const { tail } = page.now.thread!;
  await page.do(({ markRead }) => Promise.all([markRead(), markRead()]));
  expect(marks.sent).toEqual([tail]);
  await page.until("its own marker", ({ thread }) => thread?.readSeq === tail);
  await shows(elsewhere, threadId, false);
  await page.do(({ markRead }) => markRead());
  expect(marks.sent).toEqual([tail]);

  await write(server, threadId, { runId: "more" });
  await shows(elsewhere, threadId, true);
  await page.until("the end of the run", ({ run }) => run?.runId === "more" && run.status === "finished");
  await page.do(({ markRead }) => markRead());
  expect(marks.sent).toHaveLength(2);
  await shows(elsewhere, threadId, false);
  const { readSeq, ...thread } = await client().thread(threadId).get();
  expect(readSeq).toBe(thread.tail);
  expect(marks.sent[1]).toBe(readSeq);
});

test("a marker set by another page is not sent again", async () => {
  const threadId = await makeThread(server);
  await write(server, threadId);
  const marks = new Marks();
  const page = threadPage(client({ fetch: marks.fetch }), threadId);
  await live(page);
  const { tail } = page.now.thread!;
  await client().thread(threadId).markRead(tail);
  await page.until("the marker", ({ thread }) => thread?.readSeq === tail);
  await page.do(({ markRead }) => markRead());
  expect(marks.sent).toEqual([]);
});

test("events shown while a marker is in flight are included in the next one", async () => {
  const threadId = await makeThread(server);
  await write(server, threadId);
  const marks = new Marks();
  const page = threadPage(client({ fetch: marks.fetch }), threadId);
  await live(page);
  marks.under = "hold";
  const asked = [page.now.markRead()];
  await until("the first", () => marks.sent.length === 1);
  for (const runId of ["a", "b"]) {
    await write(server, threadId, { runId });
    await page.until("the run", ({ run }) => run?.runId === runId && run.status === "finished");
    asked.push(page.now.markRead());
  }
  expect(marks.sent).toHaveLength(1);
  marks.release();
  await Promise.all(asked);
  expect(marks.sent).toHaveLength(2);
  const { tail, readSeq } = await client().thread(threadId).get();
  expect([marks.sent[1], readSeq]).toEqual([tail, tail]);
});

test("a failed marker is not shown as an error, and is sent again with the next call", async () => {
  const threadId = await makeThread(server);
  await write(server, threadId);
  const marks = new Marks();
  const page = threadPage(client({ fetch: marks.fetch }), threadId);
  await live(page);
  marks.under = "refuse";
  await page.do(({ markRead }) => markRead());
  expect(page.now.error).toBeNull();
  marks.under = "way";
  await page.do(({ markRead }) => markRead());
  const { tail, readSeq } = await client().thread(threadId).get();
  expect([marks.sent, readSeq]).toEqual([[tail, tail], tail]);
});

test("no marker is sent without a thread", async () => {
  const marks = new Marks();
  const shared = client({ fetch: marks.fetch });
  for (const threadId of [null, "nobody-has-made-it", await makeThread(server)]) {
    const page = threadPage(shared, threadId);
    await live(page);
    await page.do(({ markRead }) => markRead());
    page.leave();
  }
  expect(marks.sent).toEqual([]);
});
