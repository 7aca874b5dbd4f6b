// Folds a log with the real client, as an application would that is sent the runs one after the other: NDJSON of
// envelopes in, `{messages, state}` out. An event that the client refuses ends it with an error.

import { readFileSync } from "node:fs";
import { HttpAgent } from "@ag-ui/client";

const runs = new Map();
for (const line of readFileSync(0, "utf8").split("\n").filter(Boolean)) {
  const { runId, event } = JSON.parse(line);
  runs.set(runId, [...(runs.get(runId) ?? []), event]);
}

let sent = [];
const body = () => sent.map((event) => `data: ${JSON.stringify(event)}\n\n`).join("");
const headers = { "Content-Type": "text/event-stream" };
const client = new HttpAgent({ url: "http://unused/", fetch: async () => new Response(body(), { headers }) });
console.error = () => {};
for (const [runId, events] of runs) {
  sent = events;
  let failed = false;
  await client.runAgent({ runId }, { onRunErrorEvent: () => void (failed = true) }).catch((error) => {
    if (!failed) throw error;
  });
}
process.stdout.write(JSON.stringify({ messages: client.messages, state: client.state }));
