import { expect, test } from "vitest";
import { fileName, ndjson } from "../../src/inspector/download.ts";
import { railOf } from "../../src/inspector/events/EventRow.tsx";
import { LONGEST_PAUSE_MS, played } from "../../src/inspector/play.ts";
import { usageOf } from "../../src/inspector/runs/usage.ts";
import { clock, delta, duration, shortId } from "../../src/inspector/time.ts";
import { logOf } from "./log.ts";

test("times are shown to the millisecond", () => {
  const local = new Date(2026, 10, 22, 9, 5, 3, 7).toISOString();
  expect(clock(local)).toBe("09:05:03.007");
  expect(clock("rubbish")).toBe("–");
  expect([0, 350, 999.6, 59_994, 59_996, 125_000, 3_599_600, 11_040_000].map(duration)).toEqual([
    "0 ms",
    "350 ms",
    "1000 ms",
    "59.99 s",
    "1 min 00 s",
    "2 min 05 s",
    "1 h 00 min",
    "3 h 04 min",
  ]);
  expect(delta("2026-01-01T00:00:00.100Z", "2026-01-01T00:00:00.450Z")).toBe("+350 ms");
  expect(delta("2026-01-01T00:00:00.450Z", "2026-01-01T00:00:00.100Z")).toBe("−350 ms");
});

test("a long id is identified by its end, and never cut inside of a character", () => {
  expect(shortId("short")).toBe("short");
  expect(shortId("019a-very-long-💬💬💬💬💬💬💬💬")).toBe("…💬💬💬💬💬💬💬💬");
});

test("a recording is played at its pace, with bounded pauses", () => {
  const log = logOf(10);
  const times = [0, 0, 0, 100, 200, 60_000, 60_001, 60_002, 60_003, 60_004];
  const peek = (seq: number) => log[seq - 1] && { ...log[seq - 1]!, at: new Date(times[seq - 1]!).toISOString() };
  // Events of one batch come together.
  expect(played({ seq: 1, credit: 0 }, 50, 10, peek)).toEqual({ seq: 3, credit: 50 });
  expect(played({ seq: 3, credit: 50 }, 50, 10, peek)).toEqual({ seq: 4, credit: 0 });
  expect(played({ seq: 5, credit: 0 }, LONGEST_PAUSE_MS - 1, 10, peek).seq).toBe(5);
  expect(played({ seq: 5, credit: 0 }, LONGEST_PAUSE_MS, 10, peek).seq).toBe(6);
  expect(played({ seq: 6, credit: 0 }, 5_000, 10, peek)).toEqual({ seq: 10, credit: 0 });
  // The recording waits for events that are not loaded, and does not catch up afterwards.
  const partly = (seq: number) => (seq > 4 ? undefined : peek(seq));
  expect(played({ seq: 3, credit: 0 }, 5_000, 10, partly)).toEqual({ seq: 4, credit: 0 });
});

test("a log is saved as it is sent, up to the tail at the start", async () => {
  async function* sent(count: number) {
    for (let seq = 1; seq <= count; seq += 1) yield `{"seq":${seq},"event":{"type":"A","value":1.0}}`;
  }
  const reported: number[] = [];
  const blob = await ndjson(sent(12_000), 11_000, (seq) => reported.push(seq));
  const lines = (await blob.text()).trimEnd().split("\n");
  expect(lines.map((line) => (JSON.parse(line) as { seq: number }).seq)).toEqual(
    Array.from({ length: 11_000 }, (_, at) => at + 1),
  );
  expect(lines[0]).toBe('{"seq":1,"event":{"type":"A","value":1.0}}');
  expect(reported).toEqual([2_000, 4_000, 6_000, 8_000, 10_000, 11_000]);
  await expect(ndjson(sent(5), 6, () => {})).rejects.toThrow("after seq 5");
  expect(fileName("../a b/ü'\"x")).toBe("a-b-ü-x.ndjson");
  expect(fileName("///")).toBe("thread.ndjson");
});

test("usage is summed where its members are known, and always shown as it is", () => {
  expect(usageOf(null)).toBeUndefined();
  expect(usageOf([{ inputTokens: 1_000, output_tokens: 5 }, { prompt_tokens: 7 }, null, 3])?.text).toBe(
    "tokens 1,007 in, 5 out",
  );
  expect(usageOf([{ calls: 3 }])).toEqual({ text: "usage", title: '[\n {\n  "calls": 3\n }\n]' });
});

test("a run has one colour", () => {
  expect(railOf("a-run")).toBe(railOf("a-run"));
  const colours = new Set(Array.from({ length: 50 }, (_, at) => railOf(`run ${at}`)));
  expect([...colours].sort()).toEqual([0, 1, 2, 3, 4, 5]);
});
