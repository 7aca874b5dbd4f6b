// Tests at which places branches part, for the conversations that edits, repeated answers and deletions leave behind.

import { expect, test } from "vitest";
import { following, placesOf } from "../../src/react/partings.js";
import type { Message, Thread } from "../../src/index.js";

/** A branch by its id and `origin@seq`; the older it was used, the smaller `used`. */
function branch(threadId: string, origin?: string, used = 0): Thread {
  const [from, seq] = origin?.split("@") ?? [];
  const forkedFrom = from === undefined ? null : { threadId: from, epoch: "e", seq: Number(seq) };
  return { threadId, forkedFrom, lastRunAt: `2026-01-01T00:00:${String(used).padStart(2, "0")}Z` } as Thread;
}

/** The places of a thread: `seq: one branch for each continuation`, with the shown one in brackets. */
function places(branches: readonly Thread[], threadId: string): string[] {
  return placesOf(branches, threadId).map(({ seq, threads, shown }) => {
    const ids = threads.map((thread, at) => (at === shown ? `[${thread.threadId}]` : thread.threadId));
    return `${seq}: ${ids.join(" ")}`;
  });
}

test("a thread without forks has no partings", () => {
  expect(places([], "t")).toEqual([]);
  expect(places([branch("t")], "t")).toEqual([]);
});

test("branches of one place follow their origin, in the order in which they were made", () => {
  const all = [branch("t"), branch("a", "t@5"), branch("b", "t@5")];
  expect(places(all, "t")).toEqual(["5: [t] a b"]);
  expect(places(all, "a")).toEqual(["5: t [a] b"]);
  expect(places(all, "b")).toEqual(["5: t a [b]"]);
});

test("a branch parts where it was made, and where its origins part", () => {
  const all = [branch("t"), branch("a", "t@5"), branch("b", "a@9", 9), branch("c", "t@2")];
  expect(places(all, "b")).toEqual(["2: [b] c", "5: t [b]", "9: a [b]"]);
  expect(places(all, "a")).toEqual(["2: [a] c", "5: t [a]", "9: [a] b"]);
  // Of several branches with the same continuation, the one that was used last.
  expect(places(all, "t")).toEqual(["2: [t] c", "5: [t] b"]);
  expect(places(all, "c")).toEqual(["2: b [c]"]);
  const used = all.map((each) => ({ ...each, lastRunAt: each.threadId === "a" ? "2027" : each.lastRunAt }));
  expect(places(used, "c")).toEqual(["2: a [c]"]);
});

test("branches of a deleted origin part from each other", () => {
  const all = [branch("a", "t@5"), branch("b", "t@5"), branch("c", "t@7")];
  expect(places(all, "a")).toEqual(["5: c [a] b"]);
  expect(places(all, "c")).toEqual(["5: [c] a b"]);
  expect(places([branch("a", "t@5"), branch("c", "t@5")], "c")).toEqual(["5: a [c]"]);
  expect(places([branch("a", "t@5")], "a")).toEqual([]);
});

test("a line of origins ends, whatever the server says", () => {
  const all = [branch("a", "b@5"), branch("b", "a@5")];
  expect(places(all, "a").length).toBeLessThanOrEqual(2);
});

test("the message of a place is the one that follows it", () => {
  const messages = ["a", "b", "c"].map((id) => ({ id, role: "user" }) as Message);
  expect(following(messages, "a", false)).toBe("b");
  expect(following(messages, "c", false)).toBeNull();
  expect(following(messages, "older", true)).toBeNull();
  expect(following(messages, null, false)).toBe("a");
  expect(following(messages, null, true)).toBeNull();
  expect(following([], null, false)).toBeNull();
});
