// Folds AG-UI events with the real client. Reads one case a line, `{"events": [...]}`, and writes one line for each:
// `{"messages", "state", "interrupts", "error", "seen"}`, where `seen` counts the events before the one that the
// client refused. `node fold.mjs old` takes the client of the time before 1.0, `node fold.mjs threadline` this
// repository's own package, which refuses nothing; a case may have a `start` there, and the line has more to compare.
// For a case with `from`, the line also has `cuts`: messages and state after that many events, and after each one more.

import { createInterface } from "node:readline";
import { Observable } from "rxjs";

const PACKAGES = { old: "@ag-ui/client-old", threadline: "../../sdk/typescript/dist/conversation/index.js" };
const { AbstractAgent = class {}, Conversation } = await import(PACKAGES[process.argv[2]] ?? "@ag-ui/client");
for (const level of ["log", "warn", "error", "info", "debug"]) console[level] = () => {};

class Replay extends AbstractAgent {
  events = [];
  seen = 0;
  from = Infinity;
  cuts = [];

  cut() {
    if (this.seen >= this.from) this.cuts[this.seen - this.from] = [JSON.stringify(this.messages), JSON.stringify(this.state)];
  }

  run() {
    return new Observable((subscriber) => {
      void (async () => {
        for (const event of this.events) {
          // The reducer works off a queue, which an error would clear: let it catch up before each event.
          await new Promise((resolve) => setImmediate(resolve));
          if (subscriber.closed) return;
          this.cut();
          subscriber.next(event);
          if (subscriber.closed) return;
          this.seen += 1;
        }
        await new Promise((resolve) => setImmediate(resolve));
        this.cut();
        subscriber.complete();
      })();
    });
  }
}

async function fold({ events, from }) {
  const agent = new Replay({ threadId: "t" });
  if (from !== undefined) agent.from = from;
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
  const { messages, state, seen, cuts } = agent;
  return { messages, state, interrupts: agent.pendingInterrupts ?? [], error, seen, cuts };
}

function foldOurs({ events, start }) {
  const conversation = new Conversation(start);
  // Read now and then, as a page does: what was read must not change, and must not change what follows.
  const reads = [];
  for (const [at, event] of events.entries()) {
    conversation.apply([event]);
    if (at % 5 === 0) reads.push([conversation.messages, conversation.state].map((seen) => [seen, JSON.stringify(seen)]));
  }
  const error = reads.flat().every(([seen, was]) => JSON.stringify(seen) === was) ? null : "what was read has changed";
  const { messages, state, interrupts, pendingToolCallIds: pending, skippedDeltas: skipped, skippedNumbers } = conversation;
  return { messages, state, interrupts, error, seen: events.length, pending, skipped, skippedNumbers };
}

for await (const line of createInterface({ input: process.stdin })) {
  if (line === "") continue;
  const given = JSON.parse(line);
  process.stdout.write(JSON.stringify(Conversation ? foldOurs(given) : await fold(given)) + "\n");
}
