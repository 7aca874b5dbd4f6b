// Folds AG-UI events with the real client. Reads one case a line, `{"events": [...]}`, and writes one line for each:
// `{"messages", "state", "interrupts", "error", "seen"}`, where `seen` counts the events before the one that the
// client refused. `node fold.mjs old` takes the client of the time before 1.0.

import { createInterface } from "node:readline";
import { Observable } from "rxjs";

const old = process.argv[2] === "old";
const { AbstractAgent } = await import(old ? "@ag-ui/client-old" : "@ag-ui/client");
for (const level of ["log", "warn", "error", "info", "debug"]) console[level] = () => {};

class Replay extends AbstractAgent {
  events = [];
  seen = 0;

  run() {
    return new Observable((subscriber) => {
      void (async () => {
        for (const event of this.events) {
          // The reducer works behind a queue, which an error would clear: let it catch up before each event.
          await new Promise((resolve) => setImmediate(resolve));
          if (subscriber.closed) return;
          subscriber.next(event);
          if (subscriber.closed) return;
          this.seen += 1;
        }
        await new Promise((resolve) => setImmediate(resolve));
        subscriber.complete();
      })();
    });
  }
}

async function fold({ events }) {
  const agent = new Replay({ threadId: "t" });
  const runs = [];
  for (const event of events) {
    if (event.type === "RUN_STARTED" || runs.length === 0) runs.push([]);
    runs.at(-1).push(event);
  }
  let error = null;
  for (const run of runs) {
    agent.events = run;
    const resume = (agent.pendingInterrupts ?? []).map(({ id }) => ({ interruptId: id, status: "cancelled" }));
    try {
      await agent.runAgent({ runId: run[0].runId, resume });
    } catch (thrown) {
      error = String(thrown?.message ?? thrown);
      break;
    }
  }
  const { messages, state, seen } = agent;
  return { messages, state, interrupts: agent.pendingInterrupts ?? [], error, seen };
}

for await (const line of createInterface({ input: process.stdin })) {
  if (line !== "") process.stdout.write(JSON.stringify(await fold(JSON.parse(line))) + "\n");
}
