// Waiting for a condition.

import { setTimeout as sleep } from "node:timers/promises";

const PATIENCE_MS = Number(process.env.PATIENCE_MS ?? 30_000);

/** Waits until `test` holds; otherwise throws with the condition's name and the current state. */
export async function until(what, test, stand = () => "") {
  const deadline = performance.now() + PATIENCE_MS;
  for (;;) {
    const found = await test();
    if (found) return found;
    if (performance.now() > deadline) throw new Error(`never came: ${what} ${stand()}`);
    await sleep(5);
  }
}
