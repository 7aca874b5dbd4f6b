// Judges runs with the real client. Reads one run a line, `[event, …]`, and writes one line for each: `{"index", "reason"}` of the
// first event that the client refuses, `{"index": null}` if it refuses none. An event passes what it passes in the client before it
// is folded: the translation of earlier releases' forms, the schemas, and the verifier. Chunks are not expanded.

import { createInterface } from "node:readline";
import { CompatibilityBoundary, verifyEvents } from "@ag-ui/client";
import { EventSchemas } from "@ag-ui/core/schemas";
import { Subject } from "rxjs";

for (const level of ["log", "warn", "error", "info", "debug"]) console[level] = () => {};

function judge(events) {
  const [boundary, source] = [new CompatibilityBoundary(), new Subject()];
  let reason = null;
  verifyEvents()(source).subscribe({ error: (error) => (reason = String(error?.message ?? error)) });
  for (const [index, event] of events.entries()) {
    let form;
    try {
      form = boundary.transformEvent(event);
    } catch (error) {
      // A null in a list of messages ends the client's stream with this error.
      return { index, reason: String(error) };
    }
    const parsed = EventSchemas.safeParse(form);
    if (!parsed.success) return { index, reason: JSON.stringify(parsed.error.issues[0]) };
    source.next(parsed.data);
    if (reason !== null) return { index, reason };
  }
  return { index: null };
}

for await (const line of createInterface({ input: process.stdin })) {
  if (line !== "") process.stdout.write(JSON.stringify(judge(JSON.parse(line))) + "\n");
}
