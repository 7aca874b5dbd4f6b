// The rules of crates/client/src/follow.rs, with the same cases.

import { expect, test } from "vitest";
import { FeedFollow, type FeedItem } from "../../src/connection/feed.js";
import { type Cursor, Follow, type FollowOptions, type Taken, type ThreadItem } from "../../src/connection/follow.js";
import { type EndReason, parseFrame, type ServerFrame } from "../../src/connection/frames.js";
import { commonCursor, ConnectionError, ProblemError, ProtocolError } from "../../src/errors.js";

const follow = (options: FollowOptions = {}) => {
  const cursor = new Follow("t", options);
  cursor.request("1");
  return cursor;
};

const frame = (name: string, body: object, id?: string) =>
  parseFrame(JSON.stringify({ id, [name]: body })) as ServerFrame;
const hello = (more: object = {}, id = "1") =>
  frame("hello", { threadId: "t", epoch: "e", tail: 4, after: 0, ...more }, id);
const events = (seq: number, count: number, epoch = "e") => {
  const list = Array.from({ length: count }, () => ({ type: "X" }));
  return frame("events", { threadId: "t", epoch, batches: [{ seq, runId: "r", at: "-", events: list }] });
};
const position = (name: string, seq: number) => frame(name, { threadId: "t", epoch: "e", seq });
const ended = (reason: EndReason, seq?: number) => frame("ended", { threadId: "t", epoch: "e", seq, reason });

const word = (item: ThreadItem | FeedItem): string => {
  switch (item.type) {
    case "hello":
      return `hello ${item.epoch} ${"tail" in item ? item.tail : item.cursor}`;
    case "events":
      return item.batches.map(({ seq, events }) => events.map((_, index) => seq + index).join(" ")).join(" ");
    case "entries":
      return `${item.entries.map(({ cursor }) => cursor).join(" ")} to ${item.cursor}`;
    case "ended":
      return item.reason;
    default:
      return `${item.type} ${"seq" in item ? item.seq : "cursor" in item ? item.cursor : ""}`.trim();
  }
};

/** Applies frames; returns the delivered items in short form, and the outcome of the last frame. */
function take<Item extends ThreadItem | FeedItem>(
  cursor: Cursor<Item>,
  ...frames: ServerFrame[]
): [string[], Taken<Item>] {
  const words: string[] = [];
  let last: Taken<Item> = { items: [] };
  for (const each of frames) {
    last = cursor.take(each);
    words.push(...last.items.map(word));
  }
  return [words, last];
}

test("each event once and in order", () => {
  const cursor = follow();
  const [words, last] = take(cursor, hello(), events(1, 2), events(2, 2), events(1, 3), position("caughtUp", 3));
  expect(words).toEqual(["hello e 4", "1 2", "3", "caughtUp 3"]);
  expect(last).toEqual({ items: [{ type: "caughtUp", seq: 3 }] });
  expect(cursor.at).toBe(3);
});

test("only events are progress, and only new ones", () => {
  const cursor = follow();
  expect(take(cursor, hello())[1].progress).toBeFalsy();
  expect(take(cursor, events(1, 2))[1].progress).toBe(true);
  expect(take(cursor, events(1, 2))[1].progress).toBeFalsy();
  expect(take(cursor, position("caughtUp", 2))[1].progress).toBeFalsy();
});

test("events before a gap are delivered, those after it are not", () => {
  const batches = [
    { seq: 2, runId: "r", at: "-", events: [{ type: "X" }] },
    { seq: 4, runId: "r", at: "-", events: [{ type: "X" }] },
  ];
  for (const [gap, delivered] of [
    [events(3, 1), ["hello e 4", "1"]],
    [position("caughtUp", 2), ["hello e 4", "1"]],
    [ended("run-ended", 2), ["hello e 4", "1"]],
    [frame("events", { threadId: "t", epoch: "e", batches }), ["hello e 4", "1", "2"]],
  ] as const) {
    const cursor = follow();
    const [words, last] = take(cursor, hello(), events(1, 1), gap);
    expect(words).toEqual(delivered);
    expect(last.error).toBeInstanceOf(ConnectionError);
    expect(cursor.at).toBe(delivered.length - 1);
  }
});

test("events of another log are not delivered", () => {
  const [words, last] = take(follow(), hello(), events(1, 1, "f"));
  expect(words).toEqual(["hello e 4"]);
  expect(last.error).toBeInstanceOf(ConnectionError);
  expect(take(follow({ epoch: "f" }), hello())[1].error).toBeInstanceOf(ProtocolError);
});

test("a rebased log continues under its new epoch", () => {
  const rebased = (from: string, after: number) => frame("rebased", { threadId: "t", from, epoch: "f", after });
  const cursor = follow();
  const [words, last] = take(cursor, hello(), events(1, 2), rebased("e", 2), events(3, 1, "f"));
  expect(words).toEqual(["hello e 4", "1 2", "rebased", "3"]);
  expect(last.error).toBeUndefined();
  expect(cursor.request("2")).toMatchObject({ after: 3, epoch: "f" });
  for (const wrong of [rebased("x", 2), rebased("e", 3)]) {
    expect(take(follow(), hello(), events(1, 2), wrong)[1].error).toBeInstanceOf(ConnectionError);
  }
});

test("a replaced log ends the subscription with what both logs have in common", () => {
  for (const [commonUpTo, common] of [
    [1, { after: 1, epoch: "f" }],
    [null, undefined],
  ] as const) {
    const end = frame("ended", { threadId: "t", epoch: "f", seq: 2, reason: "log-replaced", tail: 9, commonUpTo });
    const [words, { error, done }] = take(follow(), hello(), events(1, 2), end);
    expect(words).toEqual(["hello e 4", "1 2"]);
    expect(done).toBeUndefined();
    expect(error).toMatchObject({ slug: "log-replaced", status: 410, retryable: false, problem: { tail: 9 } });
    expect(commonCursor(error)).toEqual(common);
  }
});

test("frames before the hello, or after the hello of another request, are ignored", () => {
  for (const early of [
    events(7, 1),
    position("caughtUp", 9),
    position("fellBehind", 9),
    ended("run-ended", 9),
    hello({}, "0"),
  ]) {
    const cursor = follow();
    const [words, last] = take(cursor, early, events(1, 1));
    expect([words, last.error, last.done, cursor.at]).toEqual([[], undefined, undefined, 0]);
  }
});

test("the state of the queue, as far as it belongs to the followed log", () => {
  const queue = (version: number, epoch = "e") =>
    frame("queue", { threadId: "t", epoch, version, queued: 2, held: "stop" });
  const cursor = follow();
  const [words, last] = take(cursor, queue(1), hello(), position("caughtUp", 0), queue(2, "f"), queue(3));
  expect(words).toEqual(["hello e 4", "caughtUp 0", "queue"]);
  expect(last).toEqual({ items: [{ type: "queue", epoch: "e", version: 3, queued: 2, held: "stop" }] });
});

test("the response to an earlier unsubscribe ends nothing", () => {
  const [words, last] = take(follow(), hello(), ended("unsubscribed"), events(1, 1));
  expect(words).toEqual(["hello e 4", "1"]);
  expect(last.done).toBeUndefined();
});

test("a run starts at the position in the hello, and is dense from there", () => {
  const placed = hello({ tail: 50, after: 39 });
  const [words, last] = take(follow({ runId: "r" }), placed, events(40, 2), ended("run-ended", 41));
  expect(words).toEqual(["hello e 50", "40 41", "run-ended"]);
  expect(last.done).toBe(true);

  // A missing event at the start, in the middle or at the end is detected, also after another hello that would skip it.
  for (const frames of [[events(41, 1)], [events(40, 1), ended("run-ended", 41)]]) {
    const cursor = follow({ runId: "r" });
    expect(take(cursor, placed, ...frames)[1].error).toBeInstanceOf(ConnectionError);
    cursor.request("2");
    const [, again] = take(cursor, hello({ tail: 50, after: 41 }, "2"), events(42, 1));
    expect(again.error).toBeInstanceOf(ConnectionError);
  }
});

test("a new connection continues from the cursor with the epoch", () => {
  const cursor = follow();
  take(cursor, hello(), events(1, 3));
  expect(cursor.request("2")).toEqual({ id: "2", threadId: "t", after: 3, epoch: "e", runId: undefined });
  const [words] = take(cursor, events(4, 1), hello({}, "1"), events(4, 1), hello({}, "2"), events(4, 1));
  expect(words).toEqual(["hello e 4", "4"]);
});

test("falling behind, the end and refusals", () => {
  const [words, last] = take(follow(), hello(), position("fellBehind", 0), ended("thread-deleted"));
  expect(words).toEqual(["hello e 4", "fellBehind 0", "thread-deleted"]);
  expect(last.done).toBe(true);
  const refused = frame("error", { type: "/problems/log-replaced", status: 410, retryable: false }, "1");
  const { error } = take(follow(), refused)[1];
  expect(error).toBeInstanceOf(ProblemError);
  expect(error).toMatchObject({ slug: "log-replaced", status: 410, retryable: false });
});

test("a damaged log is a final error of its thread, and a lost thread is not a deleted one", () => {
  const end = (body: object) => frame("ended", { threadId: "t", seq: 0, ...body });
  const damaged = take(follow(), hello(), end({ epoch: "e", reason: "log-damaged", firstSeq: 1, lastSeq: 2 }))[1];
  expect(damaged.error).toMatchObject({ slug: "log-damaged", status: 500, retryable: false });
  expect((damaged.error as ProblemError).problem).toMatchObject({ firstSeq: 1, lastSeq: 2 });
  const lost = take(follow(), hello(), end({ epoch: null, reason: "log-replaced", tail: 0, commonUpTo: null }))[1];
  expect(lost.error).toMatchObject({ slug: "log-replaced", retryable: false });
  expect((lost.error as ProblemError).problem["epoch"]).toBeNull();
});

const entry = (cursor: number) => ({ cursor, type: "upsert", threadId: `t${cursor}`, thread: null });

test("the feed: positions have gaps, and each entry is delivered once", () => {
  const cursor = new FeedFollow({ after: 5, epoch: "f", userId: "u" });
  expect(cursor.request("1")).toEqual({ id: "1", after: 5, epoch: "f", userId: "u" });
  const feed = (...cursors: number[]) => frame("feed", { entries: cursors.map(entry), cursor: cursors.at(-1) });
  const greeting = (id: string) => frame("feedHello", { epoch: "f", cursor: 5 }, id);
  expect(take(cursor, feed(6), greeting("0"), feed(6))[0]).toEqual([]);
  const [words, last] = take(
    cursor,
    greeting("1"),
    feed(4, 7, 9),
    feed(9, 12),
    feed(11),
    frame("feedCaughtUp", { cursor: 15 }),
  );
  expect(words).toEqual(["hello f 5", "7 9 to 9", "12 to 12", "caughtUp 15"]);
  expect(last.error).toBeUndefined();
  // The epoch is sent with the position, also after it has changed.
  expect(cursor.request("2")).toMatchObject({ after: 15, epoch: "f" });
  expect(take(cursor, feed(16), frame("feedRebased", { from: "f", epoch: "g", cursor: 15 }))[0]).toEqual([]);
  const rebased = frame("feedRebased", { from: "f", epoch: "g", cursor: 15 });
  expect(take(cursor, greeting("2"), rebased)[0]).toEqual(["hello f 15", "rebased 15"]);
  expect(cursor.request("2")).toMatchObject({ after: 15, epoch: "g" });
  expect(take(cursor, frame("error", { type: "/problems/cursor-ahead", status: 416 }, "2"))[1].error).toMatchObject({
    slug: "cursor-ahead",
  });
});
