import { expect, test } from "vitest";
import { streamParser } from "../../src/connection/eventstream.js";
import { FeedFollow } from "../../src/connection/feed.js";
import { Follow } from "../../src/connection/follow.js";
import { parseFrame, subscribeFrame, unsubscribeFrame } from "../../src/connection/frames.js";
import { batchesOf } from "../../src/connection/requests.js";
import { Turns } from "../../src/connection/turns.js";
import { ProtocolError } from "../../src/errors.js";
import { busyMs } from "../harness/until.js";

test("frames are parsed, those of later versions ignored, and invalid ones are errors", () => {
  expect(parseFrame('{"id":"7","caughtUp":{"threadId":"t","epoch":"e","seq":3}}')).toEqual({
    name: "caughtUp",
    id: "7",
    body: { threadId: "t", epoch: "e", seq: 3 },
  });
  for (const text of ['{"pong":{}}', '{"heartbeat":{"tails":[]}}', '{"closing":{"code":4000,"reason":"draining"}}']) {
    expect(parseFrame(text)?.body).toBeDefined();
  }
  for (const text of ["{}", '{"id":"1"}', '{"hello":7}', '{"id":{}}', '{"events":null}'])
    expect(parseFrame(text)).toBeUndefined();
  // Unknown frames are ignored by their recipient.
  const unknown = parseFrame('{"dance":{"threadId":"t"}}')!;
  expect(new Follow("t").take(unknown)).toEqual({ items: [] });
  expect(new FeedFollow().take(unknown)).toEqual({ items: [] });
  for (const text of ["", "nonsense", "[]", "7", "null", '{"a":']) {
    expect(() => parseFrame(text), text).toThrow(ProtocolError);
  }
});

test("requests conform to proto/socket.md", () => {
  const ofThread = { id: "1", threadId: "t", after: 3, epoch: undefined, runId: "r" };
  expect(subscribeFrame(ofThread)).toBe('{"id":"1","subscribe":{"threadId":"t","after":3,"runId":"r"}}');
  expect(unsubscribeFrame(ofThread)).toBe('{"unsubscribe":{"threadId":"t"}}');
  const ofFeed = { id: "2", after: 0, userId: undefined };
  expect(subscribeFrame(ofFeed)).toBe('{"id":"2","subscribeFeed":{"after":0}}');
  expect(unsubscribeFrame(ofFeed)).toBe('{"unsubscribeFeed":{}}');
});

test("events that were committed together are delivered together", () => {
  const one = (seq: number, runId: string, at: string) => ({ seq, runId, at, event: { type: "own.event" } as const });
  const events = [one(1, "a", "x"), one(2, "a", "x"), one(3, "a", "y"), one(4, "b", "y"), one(6, "b", "y")];
  expect(batchesOf(events).map(({ seq, runId, at, events }) => [seq, runId, at, events.length])).toEqual([
    [1, "a", "x", 2],
    [3, "a", "y", 1],
    [4, "b", "y", 1],
    [6, "b", "y", 1],
  ]);
});

// All rules of the format, with all three line endings, a byte order mark and characters of four bytes.
const STREAM = [
  "\ufeff: a comment",
  "data: one",
  "",
  "event: named",
  ":",
  "data:  two words ",
  "data",
  "data:💬ß",
  "id: 7",
  "",
  "event: without data",
  "",
  "retry: 500",
  "retry: soon",
  "unknown: field",
  "data: after",
  "",
  "data: never ended",
];
const READ = [
  "a comment",
  { name: "message", data: "one" },
  "a comment",
  { name: "named", data: " two words \n\n💬ß" },
  500,
  { name: "message", data: "after" },
];

function read(pieces: readonly Uint8Array[]): unknown[] {
  const seen: unknown[] = [];
  const push = streamParser(
    (event) => seen.push(event),
    (ms) => seen.push(ms),
    () => seen.push("a comment"),
  );
  for (const piece of pieces) push(piece);
  return seen;
}

test.each(["\n", "\r", "\r\n"])("an event stream is parsed the same however it is split (line ending %j)", (end) => {
  const bytes = new TextEncoder().encode(STREAM.join(end));
  expect(read([bytes])).toEqual(READ);
  expect(read(Array.from(bytes, (byte) => Uint8Array.of(byte)))).toEqual(READ);
  for (let cut = 0; cut <= bytes.length; cut += 1) {
    expect(read([bytes.subarray(0, cut), bytes.subarray(cut)]), `cut at ${cut}`).toEqual(READ);
  }
});

test("a large event in many pieces takes time proportional to its size", () => {
  const took = (size: number) => {
    const bytes = new TextEncoder().encode(`data: ${"x".repeat(size)}\n\n`);
    const pieces = Array.from({ length: Math.ceil(bytes.length / 1_000) }, (_, index) =>
      bytes.subarray(index * 1_000, index * 1_000 + 1_000),
    );
    return busyMs(() => expect(read(pieces)).toHaveLength(1));
  };
  took(100_000);
  // 16 times the input; a quadratic parser would take 256 times as long.
  expect(took(8_000_000)).toBeLessThan(64 * Math.max(5, took(500_000)));
});

test("places are granted in the order of the requests, and holders are notified of waiting requests", async () => {
  const turns = new Turns(2);
  const never = new AbortController().signal;
  const [first, second] = await Promise.all([turns.take(never), turns.take(never)]);
  let crowded = 0;
  first.onCrowded = () => (crowded += 1);
  const order: string[] = [];
  const gone = new AbortController();
  const third = turns.take(gone.signal);
  const fourth = turns.take(never).then((place) => (order.push("fourth"), place));
  const fifth = turns.take(never).then((place) => (order.push("fifth"), place));
  expect([turns.crowded, crowded]).toEqual([true, 3]);
  gone.abort(new Error("gone"));
  await expect(third).rejects.toThrow("gone");
  first.leave();
  first.leave();
  await fourth;
  expect(order).toEqual(["fourth"]);
  second.leave();
  await fifth;
  expect(order).toEqual(["fourth", "fifth"]);
  expect(turns.crowded).toBe(false);
  await expect(turns.take(AbortSignal.abort(new Error("gone")))).rejects.toThrow("gone");
});
