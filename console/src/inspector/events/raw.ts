import { useEffect, useState } from "react";
import type { LoggedEvent } from "threadline";
import type { ThreadLog } from "../log/thread-log.ts";

/**
 * An event as the log has it, byte for byte: read as JavaScript reads JSON, large numbers would be others. Until it has come, and where
 * it cannot be read, what was read.
 */
export function useRawEvent(log: ThreadLog, logged: LoggedEvent | undefined, epoch: string): string | undefined {
  const [raw, setRaw] = useState<{ logged: LoggedEvent; text: string }>();
  useEffect(() => {
    if (!logged) return;
    const leave = new AbortController();
    const tell = (text: string) => leave.signal.aborted || setRaw({ logged, text });
    first(log.ref.lines({ after: logged.seq - 1, epoch, signal: leave.signal })).then(
      (line) => tell(eventOf(line)),
      () => tell(JSON.stringify(logged.event)),
    );
    return () => leave.abort();
  }, [log, logged, epoch]);
  return raw && raw.logged === logged ? raw.text : undefined;
}

async function first(lines: AsyncIterable<string>): Promise<string> {
  for await (const line of lines) return line;
  throw new Error("there is no such event");
}

/** The event in its line, where it comes last. Inside of a text the quotation marks of its name would be escaped. */
export function eventOf(line: string): string {
  const name = '"event":';
  return line.slice(line.indexOf(name) + name.length, line.lastIndexOf("}"));
}
