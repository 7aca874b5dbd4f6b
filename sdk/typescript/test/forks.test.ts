// Forks and branches of a thread, against the real server.

import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import {
  isProblem,
  type RunFork,
  type StartedRun,
  type Thread,
  type Threadline,
  type ThreadRef,
} from "../src/index.js";
import { connect } from "./connection/reader.js";
import { caught } from "./harness/caught.js";
import { closedAfterEach, server, useServer } from "./harness/served.js";
import { until } from "./harness/until.js";

useServer();

const clients = closedAfterEach();

/** A client of a user of its own. */
function client(fetched?: typeof fetch): Threadline {
  const made = connect({ url: server.url, user: randomUUID(), ...(fetched && { fetch: fetched }) });
  clients.push(made);
  return made;
}

const said = async (thread: ThreadRef) => (await thread.messages()).messages.map(({ content }) => content);
const ids = (threads: readonly Thread[]) => threads.map(({ threadId }) => threadId);
const asked = (content: string) => ({ messages: [{ id: `u-${content}`, role: "user", content } as const] });

/** A thread with two finished runs, each with a question and an answer. */
async function answered(threadline: Threadline): Promise<ThreadRef> {
  const { threadId } = await threadline.threads.create({ agentId: "demo" });
  const thread = threadline.thread(threadId);
  for (const content of ["one", "two"]) {
    await thread.putRun(content, [
      { type: "RUN_STARTED", threadId, runId: content, input: { threadId, runId: content, ...asked(content) } },
      { type: "TEXT_MESSAGE_START", messageId: `a-${content}`, role: "assistant" },
      { type: "TEXT_MESSAGE_CONTENT", messageId: `a-${content}`, delta: `${content}?` },
      { type: "TEXT_MESSAGE_END", messageId: `a-${content}` },
      { type: "RUN_FINISHED", threadId, runId: content },
    ]);
  }
  return thread;
}

const forking = (thread: ThreadRef, fork: RunFork, content?: string): Promise<StartedRun> =>
  thread.start({ agentId: "demo", input: content === undefined ? {} : asked(content), fork });

describe("a run in a fork", () => {
  test("edits a message: what follows it is left behind", async () => {
    const threadline = client();
    const thread = await answered(threadline);
    const { threadId, run, epoch } = await forking(thread, { before: "u-two" }, "2");
    expect(threadId).not.toBe(thread.threadId);
    const fork = threadline.thread(threadId);
    await until("the answer", async () => (await fork.get()).activeRun === null);
    expect((await said(fork)).slice(0, 3)).toEqual(["one", "one?", "2"]);
    expect(await said(thread)).toEqual(["one", "one?", "two", "two?"]);
    const origin = await thread.get();
    expect(await fork.get()).toMatchObject({
      epoch,
      listed: true,
      branched: true,
      forkedFrom: { threadId: thread.threadId, epoch: origin.epoch, seq: run.firstSeq - 1 },
    });
    expect(origin).toMatchObject({ listed: false, branched: true, forkedFrom: null });
    expect(ids((await threadline.threads.list()).threads)).toEqual([threadId]);
    expect(ids(await thread.branches())).toEqual([thread.threadId, threadId]);
  });

  test("makes an answer again, or goes on from a seq, under a chosen id", async () => {
    const threadline = client();
    const thread = await answered(threadline);
    const again = await forking(thread, { regenerate: "a-one" });
    expect(again.run.firstSeq).toBe(1);
    await until("the question", async () => (await said(threadline.thread(again.threadId)))[0] === "one");
    const named = await forking(thread, { at: 5, threadId: "chosen" }, "next");
    expect([named.threadId, named.run.firstSeq]).toEqual(["chosen", 6]);
  });

  test("may stop the run that it replaces", async () => {
    const threadline = client();
    const thread = await answered(threadline);
    await server.request("POST", `/v1/threads/${thread.threadId}/runs`, {
      body: { runId: "slow", leaseSeconds: 60 },
      user: (await thread.get()).userId,
    });
    await forking(thread, { before: "u-two" }, "2");
    expect((await thread.get()).activeRun?.stopRequested).toBe(false);
    await forking(thread, { before: "u-two", stop: true }, "2");
    expect((await thread.get()).activeRun?.stopRequested).toBe(true);
  });

  test("is begun once if the response is lost", async () => {
    let sent = 0;
    const lossy: typeof fetch = async (input, init) => {
      const response = await fetch(input, init);
      if (init?.method !== "POST" || !/\/runs$/.test(String(input))) return response;
      sent += 1;
      if (sent > 1) return response;
      await response.arrayBuffer();
      throw new TypeError("the connection broke");
    };
    const threadline = client(lossy);
    const thread = await answered(threadline);
    const { threadId } = await forking(thread, { before: "u-two" }, "2");
    expect([sent, ids(await thread.branches())]).toEqual([2, [thread.threadId, threadId]]);
  });

  test("is refused for a message that no event brings, or an agent that is not there, and leaves no fork", async () => {
    const thread = await answered(client());
    const missing = await caught(forking(thread, { before: "none" }, "2"));
    expect(isProblem(missing, "message-not-found")).toBe(true);
    const unknown = thread.start({ agentId: "nobody", input: {}, fork: { regenerate: "a-two" } });
    expect(isProblem(await caught(unknown), "agent-not-found")).toBe(true);
    expect(await thread.branches()).toHaveLength(1);
  });
});

describe("a fork", () => {
  test("has the events up to a seq, and is found again", async () => {
    const threadline = client();
    const thread = await answered(threadline);
    const { tail, epoch } = await thread.get();
    const whole = await thread.fork();
    expect(whole).toMatchObject({ tail, listed: true, forkedFrom: { threadId: thread.threadId, epoch, seq: tail } });
    const part = await thread.fork({ at: 5, threadId: "part", epoch });
    expect(await thread.fork({ at: 5, threadId: "part" })).toEqual(part);
    expect(await said(threadline.thread("part"))).toEqual(["one", "one?"]);
    expect(isProblem(await caught(thread.fork({ at: 4, threadId: "part" })), "thread-exists")).toBe(true);
    expect(isProblem(await caught(thread.fork({ at: 99 })), "cursor-ahead")).toBe(true);
    const { epoch: other } = whole;
    expect(isProblem(await caught(thread.fork({ epoch: other })), "log-replaced")).toBe(true);
  });

  test("is listed in place of its origin, until another branch is chosen", async () => {
    const threadline = client();
    const thread = await answered(threadline);
    const shown = async () => ids((await threadline.threads.list()).threads).sort();
    const { threadId } = await thread.fork();
    expect(await shown()).toEqual([threadId]);
    expect(await threadline.thread(threadId).listBranch(thread.threadId)).toMatchObject({ listed: true });
    expect(await shown()).toEqual([thread.threadId]);
    const { threadId: separate, branched } = await thread.fork({ separate: true });
    expect(branched).toBe(false);
    expect(await shown()).toEqual([separate, thread.threadId].sort());
    const foreign = await caught(thread.listBranch(separate));
    expect(isProblem(foreign, "branch-not-found")).toBe(true);
    const stale = await caught(thread.listBranch(threadId, { epoch: "0123456789abcdef" }));
    expect(isProblem(stale, "log-replaced")).toBe(true);
  });

  test("outlives its origin, unless all branches are deleted", async () => {
    const threadline = client();
    const thread = await answered(threadline);
    const first = threadline.thread((await thread.fork()).threadId);
    const second = threadline.thread((await first.fork({ at: 2 })).threadId);
    await thread.delete();
    expect(ids(await first.branches())).toEqual([first.threadId, second.threadId]);
    const epoch = (await first.get()).epoch;
    await first.delete({ branches: true, epoch });
    for (const gone of [first, second]) {
      expect(isProblem(await caught(gone.get()), "thread-not-found")).toBe(true);
    }
    expect((await threadline.threads.list()).threads).toEqual([]);
  });

  test("is one of at most 256 branches", async () => {
    const threadline = client();
    const own = threadline.thread((await threadline.threads.create()).threadId);
    for (let made = 1; made < 256; made += 1) await own.fork();
    expect(isProblem(await caught(own.fork()), "too-many-branches")).toBe(true);
  });
});
