// The server's own answers, to compare the console with; and threads for it to show.

import { randomUUID } from "node:crypto";
import { type NewEvent, type Run, type RunHandle, type TextMessageRole, Threadline } from "threadline";
import type { AnyMessage } from "../../../src/untrusted.ts";
import type { Server } from "../../../../sdk/typescript/test/harness/server.ts";

export { Proxy } from "../../../../sdk/typescript/test/harness/proxy.ts";
export { Server } from "../../../../sdk/typescript/test/harness/server.ts";
export { log, type Logged } from "../../../../sdk/typescript/test/harness/writer.ts";

/** The package, in the role of another program. */
export function client(server: Server, user?: string): Threadline {
  const { url, apiKey } = server;
  // Tests write also what no agent should.
  return new Threadline({ url, validate: false, ...(apiKey && { apiKey }), ...(user && { user }) });
}

/** The texts of one role in a thread, as the server folds them. */
export async function said(server: Server, threadId: string, role: string): Promise<string[]> {
  const { messages } = await client(server).thread(threadId).messages();
  return messages.filter((message: AnyMessage) => message.role === role).map(({ content }) => String(content));
}

export const text = (messageId: string, role: TextMessageRole, ...deltas: string[]): NewEvent[] => [
  { type: "TEXT_MESSAGE_START", messageId, role },
  ...deltas.map((delta) => ({ type: "TEXT_MESSAGE_CONTENT", messageId, delta }) as const),
  { type: "TEXT_MESSAGE_END", messageId },
];

/** A thread with one finished run of these events. */
export async function thread(
  server: Server,
  events: readonly NewEvent[],
  { name, user, agentId }: { name?: string; user?: string; agentId?: string } = {},
): Promise<string> {
  const threadline = client(server, user);
  const { threadId } = await threadline.threads.create({
    threadId: randomUUID(),
    ...(name && { name }),
    ...(agentId && { agentId }),
  });
  const options = agentId === undefined ? {} : { agentId };
  if (events.length > 0) await threadline.thread(threadId).run(options, (run) => run.append(events));
  return threadId;
}

/** A complete run of these events. */
export async function write(
  server: Server,
  threadId: string,
  events: readonly NewEvent[],
  agentId?: string,
): Promise<void> {
  const options = agentId === undefined ? {} : { agentId };
  await client(server)
    .thread(threadId)
    .run(options, (run) => run.append(events));
}

/** A run that continues until the test ends it. */
export interface OpenRun {
  readonly run: RunHandle;
  /** Finishes the run. */
  end(): Promise<Run>;
}

export function openRun(server: Server, threadId: string, agentId = "writer"): Promise<OpenRun> {
  return new Promise((resolve, reject) => {
    const body = (run: RunHandle) =>
      new Promise<void>((end) => {
        resolve({ run, end: () => (end(), done) });
      });
    const done = client(server).thread(threadId).run({ agentId, leaseSeconds: 60 }, body);
    done.catch(reject);
  });
}
