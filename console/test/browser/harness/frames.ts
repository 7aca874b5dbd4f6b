// The smoothness of the page, measured by its own clock.

import { setTimeout as sleep } from "node:timers/promises";
import type { Locator, Page } from "playwright-core";
import type { NewEvent, RunHandle } from "threadline";
import { type Server, text, thread } from "./api.ts";

/** The times between frames, in milliseconds. */
export interface Frames {
  readonly count: number;
  readonly medianMs: number;
  readonly p95Ms: number;
  readonly longestMs: number;
  /** The longest task of the page's thread, of those that took 50 ms and more. */
  readonly longestTaskMs: number;
}

/** Records frames for this long, while an element is scrolled: up (-1), down (1) or not at all (0). */
export async function framesOf(page: Page, scroller: Locator, direction: number, ms = 3_000): Promise<Frames> {
  const element = await scroller.elementHandle();
  return page.evaluate(
    async ({ element, direction, ms }) => {
      const tasks: number[] = [0];
      const observer = new PerformanceObserver((list) =>
        tasks.push(...list.getEntries().map(({ duration }) => duration)),
      );
      observer.observe({ type: "longtask" });
      const times: number[] = [];
      await new Promise<void>((resolve) => {
        const step = (now: number) => {
          times.push(now);
          // About three screens a second at 60 frames, as by a fast wheel.
          if (direction !== 0) element?.scrollBy(0, direction * 40);
          if (now - times[0]! < ms) requestAnimationFrame(step);
          else resolve();
        };
        requestAnimationFrame(step);
      });
      observer.disconnect();
      const gaps = times.slice(1).map((time, index) => time - times[index]!);
      gaps.sort((a, b) => a - b);
      const at = (share: number) =>
        Math.round(10 * (gaps[Math.min(gaps.length - 1, Math.floor(share * gaps.length))] ?? 0)) / 10;
      return {
        count: gaps.length,
        medianMs: at(0.5),
        p95Ms: at(0.95),
        longestMs: at(1),
        longestTaskMs: Math.max(...tasks),
      };
    },
    { element, direction, ms },
  );
}

/** A thread of 400 questions with answers, of more than 10,000 events. */
export function large(server: Server): Promise<string> {
  const events: NewEvent[] = [];
  for (let turn = 0; turn < 200; turn += 1) {
    const answer = Array.from(
      { length: 18 },
      (_, index) => `part ${index} of the answer, with **words** and \`code\`; `,
    );
    for (const number of [2 * turn, 2 * turn + 1]) {
      events.push(...text(`q${number}`, "user", `Question ${number}, which is not long.`));
      events.push(...text(`a${number}`, "assistant", `Answer ${number}: `, ...answer, "\n\n- one\n- two\n"));
    }
  }
  return thread(server, events, { name: "Ten thousand events", agentId: "writer" });
}

/** Writes words at a pace, which may be that of many tokens. */
export async function stream(
  run: RunHandle,
  messageId: string,
  { perSecond, seconds }: { perSecond: number; seconds: number },
): Promise<void> {
  const begun = performance.now();
  for (let said = 0; said < perSecond * seconds;) {
    const due = Math.min(perSecond * seconds, ((performance.now() - begun) / 1_000) * perSecond);
    for (; said < due; said += 1) {
      const delta = said % 60 === 59 ? `word ${said}.\n\n` : `word ${said} `;
      await run.append({ type: "TEXT_MESSAGE_CONTENT", messageId, delta });
    }
    // The producer waits to keep the pace.
    await sleep(5);
  }
}
