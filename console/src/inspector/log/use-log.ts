import { useEffect, useMemo, useSyncExternalStore } from "react";
import type { LoggedEvent } from "threadline";
import { useThreadline } from "threadline/react";
import type { RunsSnapshot } from "./runs.ts";
import { type LogSnapshot, logOf, type ThreadLog } from "./thread-log.ts";

/** The log of a thread, live. */
export function useLog(threadId: string): readonly [ThreadLog, LogSnapshot] {
  const client = useThreadline();
  const log = useMemo(() => logOf(client, threadId), [client, threadId]);
  return [log, useSyncExternalStore(log.subscribe, log.getSnapshot)];
}

/** An event, as soon as it is at hand. */
export function useEvent(log: ThreadLog, seq: number | undefined): LoggedEvent | undefined {
  // Another log has others.
  const { pages } = log;
  const isThere = seq !== undefined && seq >= 1 && seq <= pages.tail;
  useEffect(() => (isThere ? pages.want(seq) : undefined), [pages, seq, isThere]);
  return useSyncExternalStore(pages.subscribe, () => (seq === undefined ? undefined : pages.peek(seq)));
}

/** The runs of a thread. */
export function useRuns({ runs }: ThreadLog): RunsSnapshot {
  return useSyncExternalStore(runs.subscribe, runs.getSnapshot);
}
