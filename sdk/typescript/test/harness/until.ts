import { setTimeout as sleep } from "node:timers/promises";

const PATIENCE_MS = Number(process.env.PATIENCE_MS ?? 30_000);

/** Waits until `test` gives something true, and gives it; else says what never came, and how things stand. */
export async function until<T>(what: string, test: () => T | Promise<T>, stand: () => unknown = () => ""): Promise<T> {
  const deadline = performance.now() + PATIENCE_MS;
  for (;;) {
    const found = await test();
    if (found) return found;
    if (performance.now() > deadline) throw new Error(`never came: ${what} ${JSON.stringify(stand())}`);
    await sleep(5);
  }
}

/** How long something keeps this process busy, whatever else the machine does meanwhile. */
export function busyMs(work: () => void): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}
