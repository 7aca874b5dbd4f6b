import { expect, test } from "vitest";
import { ServerClock } from "../../src/clock.ts";

const HOUR = 3_600_000;
const NOON = Date.UTC(2026, 6, 15, 12);

/** A server and a browser whose clock is off by this much, with responses that take some time. */
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
  "a clock that is %i ms off is corrected, to a second with the first response",
  async (off) => {
    const { clock, ask, time } = world(off);
    expect(clock.now() - time()).toBe(off);
    await ask("http://server/");
    expect(Math.abs(clock.now() - time())).toBeLessThan(600);
  },
);

test("each response narrows the bounds", async () => {
  const { clock, ask, pass, time } = world(2 * HOUR);
  for (let answer = 0; answer < 40; answer += 1) {
    await ask("http://server/");
    pass(730);
  }
  expect(Math.abs(clock.now() - time())).toBeLessThan(100);
});

test("a clock within the bounds is left alone, and no listener is notified", async () => {
  const { clock, ask, pass, time } = world(0);
  let notified = 0;
  clock.onChange(() => (notified += 1));
  for (let answer = 0; answer < 10; answer += 1) {
    await ask("http://server/");
    pass(730);
  }
  expect(clock.now()).toBe(time());
  expect(notified).toBe(0);
});

test("a clock that is changed meanwhile is corrected again, and its listeners are notified", () => {
  let local = NOON;
  const clock = new ServerClock(() => local);
  let notified = 0;
  const leave = clock.onChange(() => (notified += 1));
  clock.hear(NOON, local, local);
  expect([clock.now(), notified]).toEqual([NOON, 0]);
  local -= HOUR;
  clock.hear(NOON, local, local);
  expect(Math.abs(clock.now() - NOON)).toBeLessThanOrEqual(500);
  expect(notified).toBe(1);
  leave();
  local = NOON;
  clock.hear(NOON, local, local);
  expect([clock.now(), notified]).toEqual([NOON, 1]);
});

test("responses without a date, and those during which the clock was changed, are ignored", async () => {
  const clock = new ServerClock(() => NOON);
  await clock.hearing(() => Promise.resolve(new Response()))("http://server/");
  clock.hear(NOON + HOUR, NOON, NOON - 1);
  expect(clock.now()).toBe(NOON);
});
