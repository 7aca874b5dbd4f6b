// What the package does in every runtime: it follows a thread over each transport, produces a run, reads and stops.

import { Threadline, type ThreadRef, type TransportName } from "../../src/index.js";

/** Options of a check. `transports` are those that the runtime has. */
export interface Options {
  readonly url: string;
  readonly apiKey: string;
  readonly transports: readonly TransportName[];
}

/** Result of a check, as JSON. */
export interface Report {
  /** For each transport: the transport in use when the reader had caught up, and the text that it received. */
  readonly followed: readonly { readonly transport: unknown; readonly text: string }[];
  /** Contents of the thread's messages. */
  readonly messages: readonly unknown[];
  /** Status of the run after it was stopped. */
  readonly stopped: string;
}

export const TEXT = ["Good ", "morning, ", "wörld 🧵"];

export async function check({ url, apiKey, transports }: Options): Promise<Report> {
  const options = { url, apiKey, user: "ann" };
  const producing = new Threadline(options);
  const { threadId } = await producing.threads.create();
  const thread = producing.thread(threadId);
  const readers = transports.map((transport) => {
    const client = new Threadline({ ...options, transports: [transport] });
    return { client, received: received(client, threadId) };
  });
  await Promise.all(readers.map(({ received }) => received.caughtUp));
  await produce(thread, async (say) => {
    for (const delta of TEXT) await say(delta);
  });
  const followed = await Promise.all(readers.map(({ received }) => received.all));
  for (const { client } of readers) client.close();
  const { messages } = await thread.messages();
  const stopped = await produce(thread, async (say, { runId, signal }) => {
    await say("I talk until ");
    await thread.stop(runId);
    // The answer to the append may have told of the stop already.
    if (!signal.aborted) await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
  });
  producing.close();
  return { followed, messages: messages.map(({ content }) => content), stopped: stopped.status };
}

type Say = (delta: string) => Promise<void>;

/** Produces a run with one message. */
function produce(thread: ThreadRef, body: (say: Say, run: { runId: string; signal: AbortSignal }) => Promise<void>) {
  return thread.run({}, async (run) => {
    const text = run.text();
    await body((delta) => text.write(delta), run);
  });
}

/** Follows a thread until its first run has ended. */
function received(client: Threadline, threadId: string) {
  let ready = () => {};
  const caughtUp = new Promise<void>((resolve) => (ready = resolve));
  const follow = async () => {
    let transport: unknown;
    let text = "";
    for await (const item of client.thread(threadId).subscribe({ after: 0 })) {
      if (item.type === "caughtUp") {
        transport ??= "transport" in client.status ? client.status.transport : client.status.state;
        ready();
      }
      if (item.type !== "events") continue;
      for (const event of item.batches.flatMap(({ events }) => events)) {
        if (event.type === "TEXT_MESSAGE_CONTENT") text += String(event["delta"]);
        if (event.type === "RUN_FINISHED") return { transport, text };
      }
    }
    throw new Error("the subscription ended");
  };
  return { caughtUp, all: follow() };
}
