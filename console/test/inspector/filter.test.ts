import { expect, test } from "vitest";
import { until } from "../../../sdk/typescript/test/harness/until.js";
import { nearest } from "../../src/inspector/events/EventList.tsx";
import { choicesOf, familyOf, OTHER_TYPES } from "../../src/inspector/events/families.ts";
import { EVERYTHING, type Filter, isActive, matcher, shownOf, withTypes } from "../../src/inspector/events/filter.ts";
import { isRounded } from "../../src/inspector/events/exact.ts";
import { line, preview } from "../../src/inspector/events/preview.ts";
import { Scan } from "../../src/inspector/events/scan.ts";
import { logged, logOf, Pages } from "./log.ts";

const custom = { type: "CUSTOM", name: "n", value: 0 } as const;

const ALL = { firstSeq: 1, lastSeq: undefined };

function finished(scan: Scan): Promise<unknown> {
  return until("the end of the scan", () => scan.getSnapshot().state !== "scanning", scan.getSnapshot);
}

test("a filter combines the type, the run and the text", () => {
  const event = { type: "TEXT_MESSAGE_CONTENT", messageId: "m", delta: 'Straße "quoted"' };
  const shows = (filter: Partial<Filter>) => matcher({ ...EVERYTHING, ...filter })(event, "r1");
  expect(shows({})).toBe(true);
  expect(shows({ runId: "r1" })).toBe(true);
  expect(shows({ runId: "r2" })).toBe(false);
  expect(shows({ text: "STRASSE" })).toBe(false);
  expect(shows({ text: "STRAßE" })).toBe(true);
  expect(shows({ text: '"delta":"str' })).toBe(true);
  expect(shows({ text: "straße", hidden: new Set(["TEXT_MESSAGE_CONTENT"]) })).toBe(false);
  expect(shows({ text: "straße", hidden: new Set(["CUSTOM"]) })).toBe(true);
});

test("custom types are chosen together", () => {
  expect(familyOf("my.type")).toBe("custom");
  const without = matcher(withTypes(EVERYTHING, [OTHER_TYPES], false));
  expect(without({ type: "my.type" }, "r")).toBe(false);
  expect(without({ type: "CUSTOM" }, "r")).toBe(true);
});

test("a family is shown, in part, or not", () => {
  const some = withTypes(EVERYTHING, ["STATE_DELTA"], false);
  expect(isActive(EVERYTHING)).toBe(false);
  expect(isActive(some)).toBe(true);
  expect(shownOf(some, "state")).toBe("some");
  const none = withTypes(some, choicesOf("state"), false);
  expect(shownOf(none, "state")).toBe("none");
  expect(isActive(withTypes(none, choicesOf("state"), true))).toBe(false);
});

test("a scan finds the events of the log, in order, and then appended ones", async () => {
  const log = logOf(12_000, (seq) => ({ type: seq % 1_000 === 0 ? "RUN_FINISHED" : "CUSTOM" }));
  const source = new Pages(log, 3_000);
  const scan = new Scan(source.read, { ...EVERYTHING, text: "run_fin" }, log.length, ALL);
  await finished(scan);
  expect(scan.getSnapshot()).toMatchObject({ state: "done", found: 12, cursor: 12_000 });
  expect(scan.getSnapshot().seqs).toEqual(log.filter(({ seq }) => seq % 1_000 === 0).map(({ seq }) => seq));
  const { at } = logged(1);
  const end = { type: "RUN_FINISHED", threadId: "t", runId: "r" } as const;
  scan.take([
    // Some of it was read already.
    { seq: 11_999, runId: "r", at, events: [custom, end, end] },
    { seq: 12_002, runId: "r", at, events: [custom] },
  ]);
  expect(scan.getSnapshot()).toMatchObject({ found: 13, cursor: 12_002 });
  expect(scan.getSnapshot().seqs.at(-1)).toBe(12_001);
});

test("an event that is appended during a scan is found once", async () => {
  const log = logOf(100);
  const source = new Pages(log, 10);
  let scan: Scan | undefined;
  const read: typeof source.read = async (after, limit) => {
    if (after === 50) {
      log.push(logged(101), logged(102));
      scan!.take([{ seq: 101, runId: "r", at: "", events: [log[100]!.event, log[101]!.event] }]);
    }
    return source.read(after, limit);
  };
  scan = new Scan(read, { ...EVERYTHING, text: "custom" }, 100, ALL);
  await finished(scan);
  expect(scan.getSnapshot().seqs).toEqual(log.map(({ seq }) => seq));
});

test("the events of one run are searched only within its range", async () => {
  const log = logOf(1_000).map((each) => ({ ...each, runId: each.seq > 400 && each.seq <= 600 ? "b" : "a" }));
  const source = new Pages(log, 100);
  const scan = new Scan(source.read, { ...EVERYTHING, runId: "b" }, 1_000, { firstSeq: 401, lastSeq: 600 });
  await finished(scan);
  expect(source.asked).toEqual([400, 500]);
  expect(scan.getSnapshot().found).toBe(200);
  scan.take([{ seq: 1_001, runId: "c", at: "", events: [custom] }]);
  expect(scan.getSnapshot().found).toBe(200);
});

test("a stopped scan keeps the events it found; a failed one has its error", async () => {
  const log = logOf(1_000);
  const stopped = new Pages(log, 100);
  const scan: Scan = new Scan(
    async (after, limit) => {
      if (after === 300) scan.cancel();
      return stopped.read(after, limit);
    },
    { ...EVERYTHING, text: "custom" },
    1_000,
    ALL,
  );
  await finished(scan);
  expect(scan.getSnapshot()).toMatchObject({ state: "cancelled", found: 300, cursor: 300 });
  const broken = new Pages(log);
  broken.failure = new Error("no store");
  const failed = new Scan(broken.read, { ...EVERYTHING, text: "custom" }, 1_000, ALL);
  await finished(failed);
  expect(failed.getSnapshot()).toMatchObject({ state: "failed", error: new Error("no store") });
});

test("the row of a seq that is left out is the one before it", () => {
  const seqs = [3, 7, 20, 99];
  expect([1, 3, 6, 7, 50, 99, 500].map((seq) => nearest(seqs, 4, seq))).toEqual([0, 0, 0, 1, 2, 3, 3]);
  expect(nearest(seqs, 2, 500)).toBe(1);
});

test("a preview is one line with the essential members, and hides nothing", () => {
  expect(preview({ type: "TEXT_MESSAGE_CONTENT", messageId: "m", delta: "a\nb\tc\u0007" })).toBe("“a↵b⇥c␦”");
  expect(preview({ type: "STATE_DELTA", delta: [{ op: "add", path: "/a" }] })).toBe("add /a");
  expect(preview({ type: "RUN_ERROR", code: "x", message: "no" })).toBe("x: no");
  expect(preview({ type: "TOOL_CALL_END", toolCallId: "c1" })).toBe("c1");
  expect(preview({ type: "MESSAGES_SNAPSHOT", messages: [{}] })).toBe("1 message");
  expect(preview({ type: "CUSTOM", name: "usage", value: { in: 1 } })).toBe('usage {"in":1}');
  expect(preview({ type: "MINE", a: 1 })).toBe('{"a":1}');
  // What is not as it should be is shown, too.
  expect(preview({ type: "STATE_DELTA", delta: [null, 7] })).toBe("?, ?");
  // What cannot be made a text must not take the page with it.
  const odd = { toString: 1 };
  expect(preview({ type: "STATE_DELTA", delta: [{ op: odd, path: odd }] })).toBe('{"toString":1} {"toString":1}');
  expect(preview({ type: "MINE", oddId: odd })).toBe('{"toString":1}');
  expect(preview({ type: "RUN_STARTED", input: { messages: [{ content: null }] } })).toBe("");
  expect(line("x".repeat(159) + "💬")).toBe(`${"x".repeat(159)}…`);
});

test.each([
  [{ a: [1, { b: 2 ** 53 }] }, true],
  [-(2 ** 60), true],
  [1e300, true],
  [{ a: [2 ** 53 - 1, 0.1, null, "9007199254740993"] }, false],
])("whether a number in %j may have been rounded: %j", (value, expected) => {
  expect(isRounded(value)).toBe(expected);
});
