import { useEffect, useRef, useState } from "react";
import type { UseThread } from "threadline/react";
import { restOf, summaryOf } from "./queue.ts";

/** Announces to screen readers that an answer begins and how it ended, but not each word of it, and what waits. */
export function Announcer({ live }: { readonly live: UseThread }) {
  const { isRunning, isLoading, run, interrupts } = live;
  const wasRunning = useRef(isRunning);
  const wasStopping = useRef(false);
  const [said, say] = useState("");
  useEffect(() => {
    if (isRunning) wasStopping.current = run?.status === "stopping";
    if (isLoading || wasRunning.current === isRunning) return;
    wasRunning.current = isRunning;
    if (isRunning) say(`${run?.agentId ?? "The agent"} is answering.`);
    else if (run?.status === "error") say(`The run failed. ${run.error?.message ?? ""}`);
    else if (wasStopping.current) say("The run was stopped.");
    else say(interrupts.length > 0 ? "The agent waits for an answer." : "The answer is complete.");
  }, [isRunning, isLoading, run, interrupts]);
  const count = live.queue.items.length;
  const rest = restOf(live);
  const waited = useRef(count);
  useEffect(() => {
    const isMore = count > waited.current;
    waited.current = count;
    if (!isLoading && count > 0 && (isMore || rest !== null)) say(summaryOf(count, rest));
  }, [isLoading, count, rest]);
  return (
    <p className="visually-hidden" role="status" data-testid="announcer">
      {said}
    </p>
  );
}
