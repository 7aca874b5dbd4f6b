import { expect, test } from "vitest";
import { SENT_SIZE } from "../src/limits.js";
import { Sent } from "../src/sent.js";

const texts = (from: number, count: number) => Array.from({ length: count }, (_, index) => String(from + index));

test("lost events are those from a number on, and the others stay", () => {
  for (let lost = 3; lost <= 12; lost += 1) {
    const sent = new Sent(3);
    for (const [from, count] of [
      [3, 4],
      [7, 1],
      [8, 3],
    ] as const) {
      sent.add(texts(from, count));
    }
    expect(sent.takeFrom(lost)).toEqual(texts(lost, Math.max(0, 11 - lost)));
    expect(sent.first).toBe(3);
    expect(sent.takeFrom(3)).toEqual(texts(3, Math.min(lost, 11) - 3));
    sent.add(["again"]);
    expect(sent.takeFrom(3)).toEqual(["again"]);
  }
});

test("the oldest events beyond the limit are dropped", () => {
  const sent = new Sent(1);
  for (let index = 0; index < 10; index += 1) sent.add(["x".repeat(SENT_SIZE / 4)]);
  expect(sent.first).toBe(7);
  expect(sent.takeFrom(8)).toHaveLength(3);
  sent.add(["x".repeat(SENT_SIZE + 1)]);
  expect(sent.first).toBe(9);
  expect(sent.takeFrom(9)).toEqual([]);
});
