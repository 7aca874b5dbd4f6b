import { CircleAlert } from "lucide-react";
import { useState } from "react";
import type { Run } from "threadline";
import { Button } from "../parts/Button.tsx";
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
  /** Has an agent go on with what is there; absent where that cannot be. */
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
  const { agentId, status, startedAt, endedAt } = run;
  const words: Partial<Record<Run["status"], string>> = {
    stopped: "stopped",
    error: "failed",
    abandoned: "never began",
  };
  const took = endedAt && lasting(new Date(endedAt).getTime() - new Date(startedAt).getTime());
  return (
    <p className="run-end">
      {[agentId ?? "a client", words[status], took && `took ${took}`].filter(Boolean).join(" · ")}
      {endedAt && (
        <>
          {" · "}
          <Time at={endedAt} />
        </>
      )}
    </p>
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
        <Long text={failure.message || "It did not say why."} most={MOST_FAILURE}>
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
