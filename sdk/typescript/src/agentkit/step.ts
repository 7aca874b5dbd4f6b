import type { History, StateData } from "@inngest/agent-kit";

/** Inngest's tools inside one of its functions; `undefined` elsewhere. */
export type Step<T extends StateData> = History.CreateThreadContext<T>["step"];

/**
 * Does `op` once. An Inngest function runs from its top again for each of its steps, and every hook with it: there `op` is a
 * step, and later executions get what the first one gave, as plain JSON.
 */
export async function once<T extends StateData, R>(step: Step<T>, name: string, op: () => Promise<R>): Promise<R> {
  return step ? ((await step.run(`threadline: ${name}`, op)) as R) : op();
}
