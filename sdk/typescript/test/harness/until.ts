import { setTimeout as sleep } from "node:timers/promises";

const PATIENCE_MS = Number(process.env.PATIENCE_MS ?? 30_000);

/** Waits until `test` returns a truthy value, and returns it; on a timeout the error has the name and the current values. */
export async function until<T>(what: string, test: () => T | Promise<T>, stand: () => unknown = () => ""): Promise<T> {
  const deadline = performance.now() + PATIENCE_MS;
  for (;;) {
    const found = await test();
    if (found) return found;
    if (performance.now() > deadline) throw new Error(`never came: ${what} ${JSON.stringify(stand())}`);
    await sleep(5);
  }
}

/** CPU time of this process for a task, independent of the load of the machine. */
export function busyMs(work: () => void): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}
