// An agent that counts, so that the example needs no model key: "count to 50". Replace it with any agent that CopilotKit's
// runtime supports: its BuiltInAgent with a model, LangGraph, Mastra, or an AG-UI endpoint.

import { setTimeout as sleep } from "node:timers/promises";
import { AbstractAgent } from "@ag-ui/client";
import { Observable } from "rxjs";

export class Counter extends AbstractAgent {
  run(input) {
    return new Observable((observer) => {
      this.stopped = new AbortController();
      const { signal } = this.stopped;
      const count = async () => {
        for await (const event of events(input)) {
          if (signal.aborted) break;
          observer.next(event);
        }
        observer.complete();
      };
      count().catch((error) => observer.error(error));
      return () => this.stopped.abort();
    });
  }

  abortRun() {
    this.stopped?.abort();
  }

  clone() {
    return new Counter({ agentId: this.agentId });
  }
}

async function* events({ threadId, runId, messages }) {
  const asked = messages.findLast(({ role }) => role === "user")?.content ?? "";
  // The runtime requests a title for a new thread in the same way.
  const title = messages.some(({ role, content }) => role === "system" && content.includes("titles"));
  const last = Number(String(asked).match(/\d+/)?.[0] ?? 20);
  const messageId = `${runId}-answer`;
  yield { type: "RUN_STARTED", threadId, runId };
  yield { type: "TEXT_MESSAGE_START", messageId, role: "assistant" };
  if (title) {
    yield { type: "TEXT_MESSAGE_CONTENT", messageId, delta: JSON.stringify({ title: `Counting to ${last}` }) };
  } else {
    for (let number = 1; number <= last; number++) {
      await sleep(150);
      yield { type: "TEXT_MESSAGE_CONTENT", messageId, delta: `${number} ` };
    }
  }
  yield { type: "TEXT_MESSAGE_END", messageId };
  yield { type: "RUN_FINISHED", threadId, runId };
}
