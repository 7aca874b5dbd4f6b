import { expect, test } from "vitest";
import { ServerClock } from "../../src/clock.ts";

const HOUR = 3_600_000;
const NOON = Date.UTC(2026, 6, 15, 12);

/** A server and a browser whose clock is off by so much, with answers that take some time on the way. */
function world(off: number) {
  let time = NOON + 250;
  const clock = new ServerClock(() => time + off);
  const send = async (_: unknown) => {
    time += 40;
    const date = new Date(time).toUTCString();
    time += 30;
    return new Response(null, { headers: { Date: date } });
  };
  const ask = clock.hearing(send as typeof fetch);
  return { clock, ask, pass: (ms: number) => (time += ms), time: () => time };
}

test.each([-2 * HOUR, 2 * HOUR])(
  "a clock that is %i ms off is put right, to a second with the first answer",
  async (off) => {
    const { clock, ask, time } = world(off);
    expect(clock.now() - time()).toBe(off);
    await ask("http://server/");
    expect(Math.abs(clock.now() - time())).toBeLessThan(600);
  },
);

test("each answer narrows it", async () => {
  const { clock, ask, pass, time } = world(2 * HOUR);
  for (let answer = 0; answer < 40; answer += 1) {
    await ask("http://server/");
    pass(730);
  }
  expect(Math.abs(clock.now() - time())).toBeLessThan(100);
});

test("a clock that may be right is left alone, and nobody is told", async () => {
  const { clock, ask, pass, time } = world(0);
  let told = 0;
  clock.onChange(() => (told += 1));
  for (let answer = 0; answer < 10; answer += 1) {
    await ask("http://server/");
    pass(730);
  }
  expect(clock.now()).toBe(time());
  expect(told).toBe(0);
});

test("a clock that is changed meanwhile is put right again, and who shows it is told", () => {
  let local = NOON;
  const clock = new ServerClock(() => local);
  let told = 0;
  const leave = clock.onChange(() => (told += 1));
  clock.hear(NOON, local, local);
  expect([clock.now(), told]).toEqual([NOON, 0]);
  local -= HOUR;
  clock.hear(NOON, local, local);
  expect(Math.abs(clock.now() - NOON)).toBeLessThanOrEqual(500);
  expect(told).toBe(1);
  leave();
  local = NOON;
  clock.hear(NOON, local, local);
  expect([clock.now(), told]).toEqual([NOON, 1]);
});

test("answers without a date, and those during which the clock was changed, say nothing", async () => {
  const clock = new ServerClock(() => NOON);
  await clock.hearing(() => Promise.resolve(new Response()))("http://server/");
  clock.hear(NOON + HOUR, NOON, NOON - 1);
  expect(clock.now()).toBe(NOON);
});
