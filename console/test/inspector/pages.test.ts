import { expect, test } from "vitest";
import { until } from "../../../sdk/typescript/test/harness/until.js";
import { CHUNK, EventPages, MOST_CHUNKS, MOST_SIZE } from "../../src/inspector/log/pages.ts";
import { logged, logOf, Pages } from "./log.ts";

function over(source: Pages, failed?: (error: unknown) => void): EventPages {
  const pages = new EventPages(source.read, failed);
  pages.tail = source.log.length;
  return pages;
}

/** Waits until an event is loaded. */
const there = (pages: EventPages, seq: number) => until(`event ${seq}`, () => pages.peek(seq));

test("a wanted event is loaded with its chunk, once", async () => {
  const source = new Pages(logOf(1_000));
  const pages = over(source);
  const changes: number[] = [];
  pages.subscribe(() => changes.push(source.asked.length));
  expect(pages.peek(450)).toBeUndefined();
  pages.want(450);
  pages.want(451);
  expect(await there(pages, 450)).toEqual(source.log[449]);
  expect(source.asked).toEqual([2 * CHUNK]);
  expect(pages.peek(2 * CHUNK + 1)).toBe(source.log[2 * CHUNK]);
  expect(pages.peek(3 * CHUNK + 1)).toBeUndefined();
  expect(changes).toEqual([1]);
  pages.want(0);
  pages.want(1_001);
  pages.want(460);
  pages.want(1_000);
  await there(pages, 1_000);
  expect(source.asked).toEqual([2 * CHUNK, 4 * CHUNK]);
});

test("a page that is shorter than requested is continued", async () => {
  const source = new Pages(logOf(500), 70);
  const pages = over(source);
  pages.want(200);
  await there(pages, 200);
  expect(source.asked).toEqual([0, 70, 140]);
  expect(pages.peek(1)).toEqual(source.log[0]);
});

test("after scrolling past many rows, the rows in view are loaded first, and the passed ones not at all", async () => {
  const source = new Pages(logOf(100 * CHUNK));
  const pages = over(source);
  for (let chunk = 0; chunk < 90; chunk += 1) pages.want(chunk * CHUNK + 1)();
  const stays = [91, 92, 93, 94, 95].map((chunk) => pages.want(chunk * CHUNK + 1));
  await there(pages, 91 * CHUNK + 1);
  expect(source.asked.slice(0, 3)).toEqual([95 * CHUNK, 94 * CHUNK, 93 * CHUNK]);
  expect(source.asked).toHaveLength(stays.length);
});

test("appended events are available without a request, also in the middle of a chunk", async () => {
  const source = new Pages(logOf(250));
  const pages = over(source);
  for (let seq = 251; seq <= 260; seq += 1) source.log.push(logged(seq));
  const { at } = logged(251);
  pages.append({ seq: 251, runId: "r", at, events: source.log.slice(250).map(({ event }) => event) });
  expect(pages.tail).toBe(260);
  expect(pages.peek(255)?.event).toEqual({ type: "CUSTOM", seq: 255 });
  const kept = pages.peek(255);
  expect(source.asked).toEqual([]);
  pages.want(210);
  await there(pages, 210);
  expect(pages.peek(255)).toBe(kept);
  expect(pages.peek(260)?.seq).toBe(260);
});

test("the number of kept chunks is bounded, except for wanted ones", async () => {
  const source = new Pages(logOf((MOST_CHUNKS + 30) * CHUNK));
  const pages = over(source);
  pages.want(1);
  await there(pages, 1);
  for (let chunk = 1; chunk < MOST_CHUNKS + 30; chunk += 1) {
    const leave = pages.want(chunk * CHUNK + 1);
    await there(pages, chunk * CHUNK + 1);
    leave();
  }
  expect(pages.kept.chunks).toBeLessThanOrEqual(MOST_CHUNKS + 1);
  expect(pages.peek(1)).toBeDefined();
  expect(pages.peek(CHUNK + 1)).toBeUndefined();
  expect(pages.peek((MOST_CHUNKS + 29) * CHUNK + 1)).toBeDefined();
});

test("the number of kept characters is bounded, too", async () => {
  const text = "x".repeat(50_000);
  const source = new Pages(logOf(10 * CHUNK, () => ({ type: "CUSTOM", text })));
  const pages = over(source);
  for (let chunk = 0; chunk < 10; chunk += 1) {
    const leave = pages.want(chunk * CHUNK + 1);
    await there(pages, chunk * CHUNK + 1);
    leave();
  }
  // The chunk that was loaded last, and the end of the log.
  expect(pages.kept.size).toBeLessThanOrEqual(MOST_SIZE + 2 * CHUNK * 50_100);
  expect(pages.peek(1)).toBeUndefined();
});

test("a failure is reported once, and tried again on demand", async () => {
  const source = new Pages(logOf(100));
  const errors: unknown[] = [];
  const pages = over(source, (error) => errors.push(error));
  source.failure = new Error("no store");
  pages.want(1);
  await until("the failure", () => errors.length);
  pages.want(2);
  pages.changed();
  source.failure = undefined;
  expect(errors).toEqual([new Error("no store")]);
  pages.retry();
  await there(pages, 1);
  expect(source.asked).toEqual([0, 0]);
});
