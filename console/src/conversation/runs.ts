import { useEffect, useMemo, useRef, useState } from "react";
import type { Run, Thread } from "threadline";
import type { AnyMessage } from "../untrusted.ts";
import { type UseThread, useThreadline } from "threadline/react";
import { type KnownEnds, lookForEnds, NO_ENDS, type RunEnds } from "./ends.ts";

interface Runs {
  /** The record of the newest run that has ended: how, when, and after how long. Undefined while one is under way. */
  readonly last: Run | undefined;
  /** The agent of all runs, if there is but one. */
  readonly onlyAgent: string | undefined;
  /** Which runs ended after which message, as far back as messages are loaded; the last one among them. */
  readonly ends: RunEnds;
}

/** What the runs of a thread say about its conversation. */
export function useRuns(threadId: string, live: UseThread): Runs {
  const { thread, run, isRunning, isLoading, messages, hasMoreMessages } = live;
  const client = useThreadline();
  const [records, setRecords] = useState<readonly Run[]>([]);
  const [ends, setEnds] = useState<{ readonly epoch: string; readonly ends: RunEnds }>();
  const known = useRef<{ readonly epoch: string; readonly ends: KnownEnds }>(undefined);
  const loaded = useRef({ messages, hasMoreMessages });
  loaded.current = { messages, hasMoreMessages };
  // A branch that is yet to be loaded is shown with the record of the thread that it comes from.
  const isWanted = thread?.threadId === threadId && !isLoading && hasRun(thread, run?.runId);
  const epoch = thread?.epoch ?? "";
  // Another run has begun or ended since; or older messages have come.
  const version = `${run?.runId ?? ""} ${isRunning} ${thread?.lastRunAt ?? ""} ${messages[0]?.id ?? ""}`;
  useEffect(() => {
    if (!isWanted) return;
    if (known.current?.epoch !== epoch) known.current = { epoch, ends: new Map() };
    const leave = new AbortController();
    const { signal } = leave;
    const isThere = memberOf(() => loaded.current.messages);
    lookForEnds(client.thread(threadId), {
      known: known.current.ends,
      epoch,
      loaded: loaded.current.messages.length,
      signal,
      isOlder: (messageId) => loaded.current.hasMoreMessages && !isThere(messageId),
      onRuns: (runs) => signal.aborted || setRecords(runs),
      onEnds: (ends) => signal.aborted || setEnds({ epoch, ends }),
      // A failure here needs no notice of its own: other parts report an unreachable server.
    }).catch(() => {});
    return () => leave.abort();
  }, [client, threadId, epoch, isWanted, version]);
  const [newest] = records;
  const isLast = newest && (run === null || newest.runId === run.runId) && newest.endedAt !== null;
  // While the first one is under way, it is the only one.
  const agents = new Set([...records.map(({ agentId }) => agentId), ...(run ? [run.agentId ?? thread?.agentId] : [])]);
  const [agent] = agents;
  return {
    last: isWanted && !isRunning && isLast ? newest : undefined,
    onlyAgent: agents.size === 1 ? (agent ?? undefined) : undefined,
    ends: ends?.epoch === epoch ? ends.ends : NO_ENDS,
  };
}

/** Those of the ends that stand between messages: in the past those that were, now all but the last one, which has its own place. */
export function useEnds(ends: RunEnds, last: Run | undefined, at: number | undefined): RunEnds {
  return useMemo(() => {
    const isShown = ({ runId, lastSeq }: Run) => (at === undefined ? runId !== last?.runId : lastSeq <= at);
    return new Map([...ends].map(([messageId, runs]) => [messageId, runs.filter(isShown)]));
  }, [ends, last?.runId, at]);
}

/** Tells whether a message is among those; their ids are read once for each list. */
function memberOf(messages: () => readonly AnyMessage[]): (messageId: string) => boolean {
  let of: readonly AnyMessage[] | undefined;
  let ids = new Set<string>();
  return (messageId) => {
    if (of !== messages()) ids = new Set((of = messages()).map(({ id }) => id));
    return ids.has(messageId);
  };
}

function hasRun({ lastRunAt }: Thread, runId: string | undefined): boolean {
  return lastRunAt !== null || runId !== undefined;
}
