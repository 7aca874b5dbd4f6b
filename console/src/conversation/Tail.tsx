import { Braces } from "lucide-react";
import type { Run } from "threadline";
import type { InterruptAnswer, UseThread } from "threadline/react";
import type { Moment } from "../inspector/moment.ts";
import { Running } from "../threads/ThreadRow.tsx";
import { Fold } from "./Fold.tsx";
import { Interrupts } from "./Interrupts.tsx";
import { Json } from "./Json.tsx";
import { RunEnd, type RunFailure } from "./RunEnd.tsx";

/** What follows the last message: the run that is under way or how the last one ended, questions, the state. */
export function Tail(props: {
  readonly live: UseThread;
  readonly moment: Moment | undefined;
  readonly lastRun: Run | undefined;
  /** Absent for a user with read access only. */
  readonly onAnswer: ((answers: readonly InterruptAnswer[]) => Promise<unknown>) | undefined;
  readonly onAgain: (() => Promise<unknown>) | undefined;
}) {
  const { live, moment, lastRun, onAnswer, onAgain } = props;
  if (moment)
    return (
      <>
        {moment.messages.length === 0 && !moment.isLoading && <p className="nothing">There were no messages yet.</p>}
        <StateCard state={moment.state} />
      </>
    );
  const { isRunning, isLoading, interrupts, messages, run } = live;
  return (
    <>
      {messages.length === 0 && !isRunning && !isLoading && <p className="nothing">There are no messages yet.</p>}
      {isRunning ? (
        <p className="at-work">
          <Running /> {run?.agentId ?? "The agent"} is at work
        </p>
      ) : (
        <RunEnd
          run={interrupts.length > 0 ? undefined : lastRun}
          failure={failureOf(live, lastRun)}
          onAgain={interrupts.length === 0 && messages.length > 0 ? onAgain : undefined}
        />
      )}
      {!isRunning && !isLoading && interrupts.length > 0 && <Interrupts interrupts={interrupts} onAnswer={onAnswer} />}
      <StateCard state={live.state} />
    </>
  );
}

/** As the page has seen it, else as the record says. */
function failureOf({ run }: UseThread, lastRun: Run | undefined): RunFailure | null {
  if (run?.status === "error") return run.error;
  if (run !== null || lastRun?.status !== "error") return null;
  return { code: lastRun.errorCode, message: lastRun.errorMessage ?? "" };
}

/** The thread's state, folded away; nothing if there is none. */
function StateCard({ state }: { readonly state: unknown }) {
  if (state === null || state === undefined) return null;
  const count = typeof state === "object" ? Object.keys(state).length : undefined;
  if (count === 0) return null;
  const summary = (
    <>
      <Braces aria-hidden="true" /> State
      {count !== undefined && <span className="glimpse">{Object.keys(state).slice(0, 6).join(", ")}</span>}
    </>
  );
  return (
    <Fold id="state" className="state-card" summary={summary}>
      <Json value={state} label="State of the thread" />
    </Fold>
  );
}
