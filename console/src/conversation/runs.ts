import { useEffect, useState } from "react";
import type { Run, Thread } from "threadline";
import { type UseThread, useThreadline } from "threadline/react";

/** Whose records are asked for. */
const RUNS = 20;

interface Runs {
  /** The record of the newest run that has ended: how, when, and after how long. Undefined while one is under way. */
  readonly last: Run | undefined;
  /** The agent of all runs, if there is but one. */
  readonly onlyAgent: string | undefined;
}

/** What the runs of a thread say about its conversation. */
export function useRuns(threadId: string, { thread, run, isRunning, isLoading }: UseThread): Runs {
  const client = useThreadline();
  const [known, setKnown] = useState<readonly Run[]>([]);
  const isWanted = thread !== null && !isRunning && !isLoading && hasRun(thread, run?.runId);
  // Another run has ended since.
  const version = `${run?.runId ?? ""} ${thread?.lastRunAt ?? ""}`;
  useEffect(() => {
    if (!isWanted) return;
    const leave = new AbortController();
    client
      .thread(threadId)
      .runs({ limit: RUNS, signal: leave.signal })
      .then(
        ({ runs }) => leave.signal.aborted || setKnown(runs),
        // What it adds is not worth a word of its own: if the server is away, others say so.
        () => {},
      );
    return () => leave.abort();
  }, [client, threadId, isWanted, version]);
  const [newest] = known;
  const isLast = newest && (run === null || newest.runId === run.runId) && newest.endedAt !== null;
  // While the first one is under way, it is the only one.
  const agents = new Set([...known.map(({ agentId }) => agentId), ...(run ? [run.agentId ?? thread?.agentId] : [])]);
  const [agent] = agents;
  return {
    last: isWanted && isLast ? newest : undefined,
    onlyAgent: agents.size === 1 ? (agent ?? undefined) : undefined,
  };
}

function hasRun({ lastRunAt }: Thread, runId: string | undefined): boolean {
  return lastRunAt !== null || runId !== undefined;
}
