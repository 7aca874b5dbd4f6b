// The branches of a conversation in hooks: edits, repeated answers, and where branches part, on every page.

import "./dom.js";
import { cleanup } from "@testing-library/react";
import { describe, expect, test } from "vitest";
import { isProblem, type TransportName } from "../../src/index.js";
import type { UseThread } from "../../src/react/index.js";
import { closedAfterEach, server, useServer } from "../harness/served.js";
import { makeThread } from "../harness/writer.js";
import { connect, listPage, said, type ThreadPage, threadPage } from "./page.js";

useServer();

const clients = closedAfterEach(cleanup);

/** A page of its own, as on another device. */
async function open(threadId: string, transport: TransportName = "websocket"): Promise<ThreadPage> {
  const client = connect({ url: server.url, transports: [transport] });
  clients.push(client);
  const page = threadPage(client, threadId, { agentId: "demo" });
  await page.until("the thread", ({ isLoading, status }) => !isLoading && status.state === "live");
  return page;
}

/** A thread with two finished runs, each with a question and an answer. */
async function answered(): Promise<string> {
  const threadId = await makeThread(server);
  for (const content of ["one", "two"]) {
    await connect({ url: server.url })
      .thread(threadId)
      .putRun(content, [
        {
          type: "RUN_STARTED",
          threadId,
          runId: content,
          input: { threadId, runId: content, messages: [{ id: `u-${content}`, role: "user", content }] },
        },
        { type: "TEXT_MESSAGE_START", messageId: `a-${content}`, role: "assistant" },
        { type: "TEXT_MESSAGE_CONTENT", messageId: `a-${content}`, delta: `${content}?` },
        { type: "TEXT_MESSAGE_END", messageId: `a-${content}` },
        { type: "RUN_FINISHED", threadId, runId: content },
      ]);
  }
  return threadId;
}

/** The partings that are shown, as `text of the message: place of the shown branch/branches`. */
const partings = ({ partings, messages }: UseThread) =>
  partings.map(({ messageId, threads, shown }) => {
    const message = messages.find(({ id }) => id === messageId);
    return `${String(message?.content ?? messageId)}: ${shown + 1}/${threads.length}`;
  });

/** Waits until a page shows these partings. */
const shows = (page: ThreadPage, ...expected: string[]) =>
  page.until(
    `the partings ${expected.join(", ")}`,
    (now) => JSON.stringify(partings(now)) === JSON.stringify(expected),
  );

/** Shows another branch on a page, when its run has ended. */
async function visit(page: ThreadPage, threadId: string): Promise<void> {
  page.show({ threadId, agentId: "demo" });
  await page.until("the branch", ({ thread, isLoading }) => thread?.threadId === threadId && !isLoading);
  await page.until("the end of the run", ({ isRunning, messages }) => !isRunning && messages.length > 1);
}

describe.each<TransportName>(["websocket", "sse", "long-poll"])("over %s", (transport) => {
  test("a message is edited in a branch, and every page shows where branches part", async () => {
    const threadId = await answered();
    const [one, other] = [await open(threadId, transport), await open(threadId, transport)];
    expect([one.now.branches, one.now.partings]).toEqual([[], []]);
    const edited = await one.do((now) => now.edit("u-two", "2"));
    await visit(one, edited.threadId);
    expect(said(one.now).slice(0, 3)).toEqual(["one", "one?", "2"]);
    await shows(one, "2: 2/2");
    await shows(other, "two: 1/2");
    expect(said(other.now)).toEqual(["one", "one?", "two", "two?"]);
    expect(other.now.thread).toMatchObject({ listed: false, branched: true });
    expect(one.now.branches.map((branch) => branch.threadId)).toEqual([threadId, edited.threadId]);

    const again = await one.do((now) => now.regenerate(now.messages.at(-1)!.id));
    await shows(other, "two: 1/3");
    await visit(one, again.threadId);
    await shows(one, "2: 3/3");
    const first = await one.do((now) => now.edit("u-one", "1"));
    await shows(other, "one: 1/2", "two: 1/3");
    await visit(one, first.threadId);
    await shows(one, "1: 2/2");
    // The other continuation leads to the branch that was used last.
    expect(one.now.partings[0]!.threads.map((branch) => branch.threadId)).toEqual([again.threadId, first.threadId]);
  });
});

test("another branch is listed, and deleted branches part no more", async () => {
  const threadId = await answered();
  const [one, other] = [await open(threadId), await open(threadId)];
  const list = listPage(connect({ url: server.url }));
  const listed = (id: string) =>
    list.until(`the branch ${id}`, ({ threads }) => threads.some((thread) => thread.threadId === id));
  const edited = await one.do((now) => now.edit("u-two", "2", { stop: true }));
  await one.do(async (now) => now.showBranch(threadId));
  await listed(edited.threadId);
  expect(list.now.threads.some((thread) => thread.threadId === threadId)).toBe(false);
  await one.do((now) => now.listBranch(threadId));
  await listed(threadId);
  await other.until("the choice", ({ thread, branches }) => thread?.listed && branches[1]?.listed === false);
  await visit(other, edited.threadId);
  await other.do((now) => now.listBranch(edited.threadId));
  await one.until("the other choice", ({ thread }) => thread?.listed === false);
  await server.request("DELETE", `/v1/threads/${edited.threadId}`);
  await shows(one);
  await one.until("the last branch", ({ thread, branches }) => thread?.listed === true && branches.length === 0);

  await one.do((now) => now.edit("u-one", "1"));
  await shows(one, "1: 2/2");
  await list.do((now) => now.deleteThread(threadId, { branches: true }));
  await one.until("the deletion", ({ thread, branches }) => thread === null && branches.length === 0);
});

test("a parting is at no message if none follows, or if it is not loaded", async () => {
  const threadId = await answered();
  await server.request("POST", `/v1/threads/${threadId}/forks`, { body: {} });
  const page = await open(threadId);
  await shows(page, "null: 1/2");
  await page.do((now) => now.send("three"));
  await shows(page, "three: 1/2");
});

test("a refused edit is shown as failed, and makes no branch", async () => {
  const page = await open(await answered());
  const refused = await page.now.edit("none", "2").catch((error: unknown) => error);
  expect(isProblem(refused, "message-not-found")).toBe(true);
  await page.until("the error", ({ error }) => isProblem(error, "message-not-found"));
  expect(page.now.branches).toEqual([]);
});

test("partings stay the same objects while an answer streams", async () => {
  const threadId = await answered();
  const page = await open(threadId);
  await page.do((now) => now.edit("u-two", "2"));
  await shows(page, "2: 2/2");
  await page.until("the end of the run", ({ isRunning }) => !isRunning);
  const { partings } = page.now;
  const from = page.seen.length;
  await page.do((now) => now.send("hello"));
  await page.until("the answer", ({ isRunning, messages }) => !isRunning && messages.length > 5);
  expect(page.seen.length).toBeGreaterThan(from + 3);
  expect(new Set(page.seen.slice(from).map((now) => now.partings.map(({ messageId }) => messageId).join()))).toEqual(
    new Set([partings[0]!.messageId!]),
  );
});
