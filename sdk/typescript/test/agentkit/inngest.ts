// A stand-in for Inngest's server: calls a function over the protocol of its `serve()`, once for each step, until it ends.

import { Inngest } from "inngest";
import { serve } from "inngest/edge";
import type { Model, Asked } from "./model.js";

interface Operation {
  readonly id: string;
  readonly op: string;
  readonly displayName?: string;
  readonly opts?: { readonly body?: Asked };
  readonly data?: unknown;
  readonly error?: unknown;
}

export interface Execution {
  /** The result of the function. */
  readonly result: unknown;
  /** Number of calls. */
  readonly calls: number;
  /** Names of the steps, in order, and the size of each result in bytes. */
  readonly steps: readonly { readonly name: string; readonly bytes: number }[];
}

export interface Faults {
  /** Every response is lost once, so that the same step is executed again. */
  readonly everyAnswerLost?: boolean;
}

const MOST_CALLS = 100;

/**
 * Executes a function. `make` returns its body; it is called for every request, as if each request reached a different
 * process. Models are called outside the function, as Inngest does.
 */
export async function execute(
  make: () => () => Promise<unknown>,
  model: Model,
  faults: Faults = {},
): Promise<Execution> {
  const steps: Record<string, { type: "data"; data: unknown }> = {};
  const names: { name: string; bytes: number }[] = [];
  const runId = crypto.randomUUID();
  for (let calls = 1; calls <= MOST_CALLS; calls += 1) {
    const request = { runId, steps, order: Object.keys(steps) };
    if (faults.everyAnswerLost) await call(make(), request);
    const { status, answer } = await call(make(), request);
    if (status === 200) return { result: answer, calls, steps: names };
    if (status !== 206) throw new Error(`the function failed: ${JSON.stringify(answer)}`);
    for (const operation of answer as Operation[]) {
      const data = operation.op === "AIGateway" ? await infer(model, operation) : operation.data;
      if (operation.error) throw new Error(`a step failed: ${JSON.stringify(operation.error)}`);
      // The result of a step travels as JSON.
      const text = JSON.stringify(data ?? null);
      steps[operation.id] = { type: "data", data: JSON.parse(text) as unknown };
      names.push({ name: operation.displayName ?? operation.id, bytes: text.length });
    }
  }
  throw new Error("the function does not come to its end");
}

async function infer(model: Model, { opts }: Operation): Promise<unknown> {
  if (!opts?.body) throw new Error("a model was asked nothing");
  return (await model.complete(opts.body)).said;
}

async function call(
  body: () => Promise<unknown>,
  { runId, steps, order }: { runId: string; steps: object; order: string[] },
): Promise<{ status: number; answer: unknown }> {
  const client = new Inngest({ id: "app", isDev: true, logger: silent });
  const chat = client.createFunction({ id: "chat", triggers: [{ event: "chat" }] }, body);
  const event = { name: "chat", data: {} };
  const ctx = {
    run_id: runId,
    attempt: 0,
    disable_immediate_execution: false,
    use_api: false,
    stack: { stack: order, current: order.length },
  };
  const response = await serve({ client, functions: [chat] })(
    new Request("http://localhost/api/inngest?fnId=app-chat&stepId=step", {
      method: "POST",
      headers: { "content-type": "application/json", host: "localhost" },
      body: JSON.stringify({ event, events: [event], steps, version: 1, ctx }),
    }),
  );
  return { status: response.status, answer: await response.json() };
}

const silent = { info() {}, warn() {}, error() {}, debug() {} };
