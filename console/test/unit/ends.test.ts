import type { MessagesPage, Run, RunPage } from "threadline";
import { expect, test } from "vitest";
import { type KnownEnds, lookForEnds, type RunEnds } from "../../src/conversation/ends.ts";

/** A thread whose runs have two events each, of which every one but the third says a message. */
function source(count: number) {
  const asked: string[] = [];
  const runs = Array.from({ length: count }, (_, index) => {
    const run = { runId: `r${index + 1}`, firstSeq: 2 * index + 1, lastSeq: 2 * index + 2, endedAt: "then" };
    return run as Run;
  }).reverse();
  return {
    asked,
    runs: ({ limit = 0, cursor = "0" }: { limit?: number; cursor?: string } = {}) => {
      asked.push(`runs ${cursor}`);
      const from = Number(cursor);
      const nextCursor = from + limit < count ? String(from + limit) : null;
      return Promise.resolve<RunPage>({ runs: runs.slice(from, from + limit), nextCursor });
    },
    messages: ({ at = 0 }: { at?: number } = {}) => {
      asked.push(`at ${at}`);
      const id = `m${at === 6 ? 4 : at}`;
      return Promise.resolve({ messages: [{ id, role: "assistant" }] } as unknown as MessagesPage);
    },
  };
}

async function look(from: ReturnType<typeof source>, known: KnownEnds, isOlder = (_: string) => false, loaded = 100) {
  let ends: RunEnds = new Map();
  let newest: readonly Run[] = [];
  await lookForEnds(from, {
    known,
    epoch: "e",
    isOlder,
    loaded,
    signal: new AbortController().signal,
    onRuns: (runs) => (newest = runs),
    onEnds: (found) => (ends = found),
  });
  return { newest, ends: [...ends].map(([messageId, runs]) => [messageId, ...runs.map(({ runId }) => runId)]) };
}

test("runs follow the last message at their end, the older run first", async () => {
  const { ends } = await look(source(4), new Map());
  expect(ends).toEqual([
    ["m2", "r1"],
    ["m4", "r2", "r3"],
    ["m8", "r4"],
  ]);
});

test("each run is requested once", async () => {
  const from = source(3);
  const known: KnownEnds = new Map();
  await look(from, known);
  from.asked.length = 0;
  const { ends } = await look(from, known);
  expect(ends.flat()).toEqual(["m2", "r1", "m4", "r2", "r3"]);
  expect(from.asked).toEqual(["runs 0"]);
});

test("the search stops where loaded messages begin", async () => {
  const from = source(100);
  const { newest } = await look(from, new Map(), (messageId) => messageId === "m150");
  expect(newest).toHaveLength(20);
  expect(from.asked.filter((each) => each.startsWith("runs"))).toEqual(["runs 0", "runs 20"]);
  expect(from.asked.at(-1)).toBe("at 150");
});

test("the search through runs without messages is bounded", async () => {
  const from = source(500);
  const { ends } = await look(from, new Map(), undefined, 1);
  expect(ends).toHaveLength(21);
  expect(from.asked.filter((each) => each.startsWith("runs"))).toEqual(["runs 0", "runs 20"]);
  expect(from.asked).toHaveLength(23);
});

test("an active run, and one before any event, have no end in the conversation", async () => {
  const from = source(2);
  const page = await from.runs({ limit: 2 });
  Object.assign(page.runs[0]!, { endedAt: null });
  Object.assign(page.runs[1]!, { lastSeq: 0 });
  expect((await look(from, new Map())).ends).toEqual([]);
});
