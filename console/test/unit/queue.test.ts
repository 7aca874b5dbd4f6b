import { expect, test } from "vitest";
import type { ShownTurn } from "threadline/react";
import { isText, movesOf, restOf, summaryOf, textOfTurn } from "../../src/conversation/queue.ts";

const turn = (runId: string, hasBegun = false, content: unknown = runId) =>
  ({ runId, hasBegun, messages: [{ id: "m", role: "user", content }] }) as unknown as ShownTurn;

test("the places to which a turn can be moved", () => {
  const items = [turn("a", true), turn("b"), turn("c"), turn("d")];
  expect(items.map((_, at) => movesOf(items, at)).slice(1)).toEqual([
    { up: undefined, down: "d" },
    { up: "b", down: null },
    { up: "c", down: undefined },
  ]);
});

test("why the queue rests", () => {
  const queue = (held: "stop" | "error" | "hand" | null) => ({ version: 1, held, items: [] });
  const asks = [{ id: "i", reason: "question" }];
  expect(restOf({ queue: queue("error"), interrupts: asks, isRunning: false })).toBe("error");
  expect(restOf({ queue: queue(null), interrupts: asks, isRunning: false })).toBe("interrupts");
  expect(restOf({ queue: queue(null), interrupts: asks, isRunning: true })).toBeNull();
  expect(summaryOf(1, null)).toBe("1 message waits.");
  expect(summaryOf(2, "stop")).toBe("2 messages wait. Held: the run was stopped.");
});

test("what a turn asks, and whether another text can take its place", () => {
  const parts = [
    { type: "text", text: "Look at" },
    { type: "image", url: "data:," },
  ];
  expect([turn("hello"), turn("p", false, parts), turn("n", false, null)].map(textOfTurn)).toEqual([
    "hello",
    "Look at",
    "No text",
  ]);
  expect([turn("hello"), turn("p", false, parts)].map(isText)).toEqual([true, false]);
});
