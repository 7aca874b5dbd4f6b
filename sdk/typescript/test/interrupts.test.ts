import { expect, test } from "vitest";
import { Threadline } from "../src/index.js";
import { server, useServer } from "./harness/served.js";

useServer();

test("the open interrupts of all threads", async () => {
  const user = new Threadline({ url: server.url, user: "ann" });
  const asked = (id: string) => ({ id, reason: "confirmation", message: `${id}?` });
  const outcome = (...ids: string[]) => ({ type: "interrupt", interrupts: ids.map(asked) }) as const;
  // The thread that asked last is the first of the list.
  for (const [threadId, ...ids] of [["c", "c1", "c2"] as const, ["b", "b1"] as const, ["a", "a1"] as const]) {
    await user.threads.create({ threadId, name: `of ${threadId}` });
    const run = { threadId, runId: `asks-${threadId}` };
    await user.thread(threadId).putRun(run.runId, [{ type: "RUN_FINISHED", ...run, outcome: outcome(...ids) }]);
  }
  const thread = await user.thread("c").get();
  expect(thread.openInterrupts).toBe(2);
  const waiting = await user.threads.list({ status: "waiting" });
  expect(waiting.threads.map((thread) => thread.openInterrupts)).toEqual([1, 1, 2]);

  const first = await user.interrupts.list({ limit: 2 });
  expect(first.interrupts.map(({ threadId, interrupt }) => [threadId, interrupt.id])).toEqual([
    ["a", "a1"],
    ["b", "b1"],
  ]);
  const second = await user.interrupts.list({ limit: 2, cursor: first.nextCursor! });
  expect(second.nextCursor).toBeNull();
  expect(second.interrupts).toEqual(
    ["c1", "c2"].map((id) => ({
      threadId: "c",
      threadName: "of c",
      userId: "ann",
      agentId: null,
      runId: "asks-c",
      author: "development",
      seq: 1,
      epoch: thread.epoch,
      openedAt: thread.lastRun!.endedAt,
      interrupt: asked(id),
    })),
  );
  expect((await user.interrupts.list({ agentId: "demo" })).interrupts).toEqual([]);

  // The feed from the page's cursor on tells of the change. Changes before the page may be in it as well, in any order: the
  // server writes them into the feed soon after they are committed.
  const { feedCursor, feedEpoch } = await user.interrupts.list();
  const resume = ["c1", "c2"].map((interruptId) => ({ interruptId, status: "cancelled" }) as const);
  const answers = { threadId: "c", runId: "answers" };
  await user.thread("c").putRun("answers", [
    { type: "RUN_STARTED", ...answers, input: { ...answers, messages: [], resume } },
    { type: "RUN_FINISHED", ...answers },
  ]);
  for await (const item of user.feed({ after: feedCursor, epoch: feedEpoch })) {
    const entries = item.type === "entries" ? item.entries : [];
    if (entries.some(({ thread }) => thread?.threadId === "c" && thread.openInterrupts === 0)) break;
  }
  expect((await user.interrupts.list()).interrupts.map(({ threadId }) => threadId)).toEqual(["a", "b"]);
});
