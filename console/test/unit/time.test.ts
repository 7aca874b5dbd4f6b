import type { Thread } from "threadline";
import { expect, test } from "vitest";
import { lasting } from "../../src/conversation/RunStatus.tsx";
import { ago } from "../../src/parts/Time.tsx";
import { dayOf, linesOf } from "../../src/threads/days.ts";

const NOW = new Date(2026, 6, 15, 12, 0, 0).getTime();
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

test.each([
  [-5 * MINUTE, "now"],
  [0, "now"],
  [44_000, "now"],
  [46_000, "1 min"],
  [5 * MINUTE, "5 min"],
  [2 * HOUR, "2 h"],
  [23 * HOUR, "23 h"],
  [2 * DAY, new Date(NOW - 2 * DAY).toLocaleDateString(undefined, { weekday: "short" })],
  [40 * DAY, new Date(NOW - 40 * DAY).toLocaleDateString(undefined, { day: "numeric", month: "short" })],
])("%i ms ago is %j", (ms, expected) => {
  expect(ago(new Date(NOW - ms), NOW)).toBe(expected);
});

test("another year is named", () => {
  expect(ago(new Date(2024, 0, 5), NOW)).toContain("2024");
});

test.each([
  [new Date(2026, 6, 15, 0, 0, 0), "Today"],
  [new Date(2026, 6, 16, 3, 0, 0), "Today"],
  [new Date(2026, 6, 14, 23, 59, 59), "Yesterday"],
  [new Date(2026, 6, 13, 23, 59, 59), "Previous 7 days"],
  [new Date(2026, 6, 8, 0, 0, 0), "Previous 7 days"],
  [new Date(2026, 6, 7, 23, 0, 0), new Date(2026, 6, 7).toLocaleDateString(undefined, { month: "long" })],
  [new Date(2025, 6, 7), new Date(2025, 6, 7).toLocaleDateString(undefined, { month: "long", year: "numeric" })],
])("%s belongs to %j", (date, expected) => {
  expect(dayOf(date, NOW)).toBe(expected);
});

test("days are counted by midnights, also where clocks are changed", () => {
  for (let day = 1; day <= 365; day += 1) {
    const noon = new Date(2026, 0, day, 0, 30);
    expect(dayOf(new Date(2026, 0, day - 1, 23, 30), noon.getTime())).toBe("Yesterday");
  }
});

test("each group has one heading, before it", () => {
  const thread = (threadId: string, lastRunAt: Date | null, updatedAt = new Date(2020, 0)): Thread =>
    ({ threadId, lastRunAt: lastRunAt?.toISOString() ?? null, updatedAt: updatedAt.toISOString() }) as Thread;
  const threads = [
    thread("a", new Date(2026, 6, 15, 11)),
    thread("b", new Date(2026, 6, 15, 9)),
    thread("c", null, new Date(2026, 6, 14, 9)),
    thread("d", new Date(2026, 6, 10)),
    thread("e", new Date(2026, 6, 9)),
  ];
  const shown = linesOf(threads, NOW).map((line) => (line.kind === "heading" ? line.title : line.thread.threadId));
  expect(shown).toEqual(["Today", "a", "b", "Yesterday", "c", "Previous 7 days", "d", "e"]);
  expect(linesOf([], NOW)).toEqual([]);
});

test.each([
  [0, "0 s"],
  [30, "0.1 s"],
  [700, "0.7 s"],
  [999, "1 s"],
  [1_400, "1 s"],
  [59_900, "59 s"],
  [60_000, "1 min"],
  [185_000, "3 min 5 s"],
  [7_800_000, "2 h 10 min"],
])("%i ms is %j", (ms, expected) => {
  expect(lasting(ms)).toBe(expected);
});
