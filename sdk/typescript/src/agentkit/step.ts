import type { History, StateData } from "@inngest/agent-kit";

/** Inngest's tools inside one of its functions; `undefined` elsewhere. */
export type Step<T extends StateData> = History.CreateThreadContext<T>["step"];

/**
 * Executes `op` once. An Inngest function is executed from the start for each of its steps, with every hook: there `op` is
 * a step, and later executions receive the result of the first one, as plain JSON.
 */
export async function once<T extends StateData, R>(step: Step<T>, name: string, op: () => Promise<R>): Promise<R> {
  return step ? ((await step.run(`threadline: ${name}`, op)) as R) : op();
}
