import { useEffect, useRef, useState } from "react";
import type { UseThread } from "threadline/react";
import { restOf, summaryOf } from "./queue.ts";

/** Announces to screen readers that an answer begins and how it ended, but not each word of it, and what waits. */
export function Announcer({ live }: { readonly live: UseThread }) {
  const { isRunning, isLoading, run, interrupts } = live;
  const count = live.queue.items.length;
  const rest = restOf(live);
  // The end of a run and its effect on the queue arrive in any order: the last announcement has both.
  const resting = count > 0 && rest !== null ? ` ${summaryOf(count, rest)}` : "";
  const wasRunning = useRef(isRunning);
  const wasStopping = useRef(false);
  const waited = useRef(count);
  const [said, say] = useState("");
  useEffect(() => {
    const isMore = count > waited.current;
    waited.current = count;
    if (isLoading) return;
    if (resting !== "") say(resting.trim());
    else if (isMore) say(summaryOf(count, null));
  }, [isLoading, count, resting]);
  useEffect(() => {
    if (isRunning) wasStopping.current = run?.status === "stopping";
    if (isLoading || wasRunning.current === isRunning) return;
    wasRunning.current = isRunning;
    if (isRunning) say(`${run?.agentId ?? "The agent"} is answering.`);
    else if (run?.status === "error") say(`The run failed. ${run.error?.message ?? ""}${resting}`);
    else if (wasStopping.current) say(`The run was stopped.${resting}`);
    else say(`${interrupts.length > 0 ? "The agent waits for an answer." : "The answer is complete."}${resting}`);
  }, [isRunning, isLoading, run, interrupts, resting]);
  return (
    <p className="visually-hidden" role="status" data-testid="announcer">
      {said}
    </p>
  );
}
