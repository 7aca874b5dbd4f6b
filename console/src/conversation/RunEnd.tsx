import { CircleAlert } from "lucide-react";
import { memo, useState } from "react";
import type { Run } from "threadline";
import { Button } from "../parts/Button.tsx";
import { line } from "../inspector/events/preview.ts";
import { Time } from "../parts/Time.tsx";
import { Long } from "./Long.tsx";
import { refusalOf } from "./refusal.ts";
import { lasting } from "./RunStatus.tsx";

/** Characters of a failure that are shown at once. */
const MOST_FAILURE = 600;

/** Why a run ended badly. */
export interface RunFailure {
  readonly code: string | null;
  readonly message: string;
}

/** How the newest run ended. */
export function RunEnd(props: {
  readonly run: Run | undefined;
  readonly failure: RunFailure | null;
  /** Has an agent continue from the last message; absent where that is not possible. */
  readonly onAgain: (() => Promise<unknown>) | undefined;
}) {
  const { run, failure, onAgain } = props;
  return (
    <>
      {failure && <FailureCard failure={failure} onAgain={onAgain} />}
      {run && <Ended run={run} />}
    </>
  );
}

function Ended({ run }: { readonly run: Run }) {
  return (
    <p className="run-end">
      <Facts run={run} />
    </p>
  );
}

/** Between the messages of a run and those of the next one: how it ended. */
export const RunDivider = memo(function RunDivider({ run }: { readonly run: Run }) {
  const { status, errorCode, errorMessage } = run;
  const why = status === "error" ? [errorCode, errorMessage].filter(Boolean).join(": ") : "";
  return (
    <div className={`run-divider ${status}`} role="note" aria-label="The end of a run">
      <p>
        <span>
          <Facts run={run} />
        </span>
      </p>
      {why && (
        <p className="run-why" dir="auto">
          {line(why)}
        </p>
      )}
    </div>
  );
});

const WORDS: Partial<Record<Run["status"], string>> = {
  finished: "finished",
  stopped: "stopped",
  error: "failed",
  abandoned: "never began",
};

/** Whose run it was, how it ended, how long it took and when that was. */
function Facts({ run }: { readonly run: Run }) {
  const { agentId, status, startedAt, endedAt } = run;
  const took = endedAt && lasting(new Date(endedAt).getTime() - new Date(startedAt).getTime());
  return (
    <>
      {agentId ?? "a client"}
      {" · "}
      <span className="run-word">{WORDS[status]}</span>
      {took && ` · took ${took}`}
      {endedAt && (
        <>
          {" · "}
          <Time at={endedAt} />
        </>
      )}
    </>
  );
}

function FailureCard({ failure, onAgain }: { failure: RunFailure; onAgain: (() => Promise<unknown>) | undefined }) {
  const [isBusy, setBusy] = useState(false);
  const [refusal, setRefusal] = useState<string | null>(null);
  const again = async () => {
    setBusy(true);
    setRefusal(null);
    await onAgain?.().catch((error: unknown) => setRefusal(refusalOf(error)));
    setBusy(false);
  };
  return (
    <section className="run-failure" aria-label="The run failed">
      <CircleAlert aria-hidden="true" />
      <div>
        <strong>The run failed</strong>
        {failure.code && <code>{failure.code}</code>}
        <Long text={failure.message || "No reason was given."} most={MOST_FAILURE}>
          {(text) => <p>{text}</p>}
        </Long>
        {refusal && <p role="alert">{refusal}</p>}
        {onAgain && (
          <Button onClick={() => void again()} disabled={isBusy}>
            Try again
          </Button>
        )}
      </div>
    </section>
  );
}
