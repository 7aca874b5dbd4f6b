// Waiting for something that is about to be so.

import { setTimeout as sleep } from "node:timers/promises";

const PATIENCE_MS = Number(process.env.PATIENCE_MS ?? 30_000);

/** Waits until `test` holds; else says what it waited for, and how things stand. */
export async function until(what, test, stand = () => "") {
  const deadline = performance.now() + PATIENCE_MS;
  for (;;) {
    const found = await test();
    if (found) return found;
    if (performance.now() > deadline) throw new Error(`never came: ${what} ${stand()}`);
    await sleep(5);
  }
}
