import { CircleAlert, CircleCheck, CircleDashed, CircleStop, Copy, LoaderCircle } from "lucide-react";
import { memo, type ReactNode, useCallback, useRef } from "react";
import type { Run, RunStatus } from "threadline";
import { VList } from "virtua";
import { Blank, Loading } from "../../parts/Blank.tsx";
import { Button, IconButton } from "../../parts/Button.tsx";
import { copyText } from "../../parts/copy.ts";
import { messageOf } from "../../parts/failure.ts";
import { useNotices } from "../../parts/notices.tsx";
import { Time } from "../../parts/Time.tsx";
import { railOf } from "../events/EventRow.tsx";
import type { ThreadLog } from "../log/thread-log.ts";
import { useRuns } from "../log/use-log.ts";
import { move, type Place } from "../place.ts";
import { clock, count, duration, fullTime } from "../time.ts";
import { StopButton } from "./StopButton.tsx";
import { usageOf } from "./usage.ts";

/** The runs of a thread, newest first. */
export function RunsPanel(props: { readonly place: Place; readonly log: ThreadLog; readonly tail: number }) {
  const { place, log, tail } = props;
  const { runs, isLoading, hasMore, error } = useRuns(log);
  const latest = useRef({ place, tail });
  latest.current = { place, tail };
  const show = useCallback((seq: number) => {
    const { place, tail } = latest.current;
    move(place, { panel: "events", event: seq, at: seq >= tail ? undefined : seq });
  }, []);
  if (error) {
    return (
      <Blank icon={<CircleAlert />} title="The runs cannot be read">
        <p role="alert">{messageOf(error)}</p>
        <Button onClick={() => void log.runs.refresh()}>Try again</Button>
      </Blank>
    );
  }
  if (runs.length === 0) {
    return isLoading ? (
      <Loading what="the runs" />
    ) : (
      <Blank title="No runs yet" children={<p>Runs of agents in this thread appear here.</p>} />
    );
  }
  return (
    <VList className="runs-panel" role="list" aria-label="Runs">
      {[
        ...runs.map((run) => <RunItem key={run.runId} run={run} tail={tail} log={log} onShow={show} />),
        ...(hasMore || isLoading
          ? [
              <div key="more" role="listitem" className="runs-more">
                {isLoading ? <Loading what="older runs" /> : <Button onClick={log.runs.more}>Load older runs</Button>}
              </div>,
            ]
          : []),
      ]}
    </VList>
  );
}

const ICONS: Record<RunStatus, ReactNode> = {
  running: <LoaderCircle className="turning" />,
  finishing: <LoaderCircle className="turning" />,
  finished: <CircleCheck />,
  error: <CircleAlert />,
  stopped: <CircleStop />,
  abandoned: <CircleDashed />,
};

/** A run: how it goes, or how it ended. */
export const RunItem = memo(function RunItem(props: {
  readonly run: Run;
  readonly tail: number;
  readonly log: ThreadLog;
  readonly onShow: (seq: number) => void;
}) {
  const { run, tail, log, onShow } = props;
  const { runId, agentId, status, startedAt, endedAt, firstSeq, errorCode, errorMessage, stopRequested } = run;
  const { tell, fail } = useNotices();
  const isActive = endedAt === null;
  // The record of an active run is as old as the last look; the log is not.
  const lastSeq = isActive ? Math.max(run.lastSeq, tail) : run.lastSeq;
  const usage = usageOf(run.usage);
  return (
    <div role="listitem" className={`run-item rail-${railOf(runId)}`} aria-label={`Run ${runId}`}>
      <div className="run-head">
        <span className={`run-status status-${status}`}>
          {ICONS[status]}
          {stopRequested && isActive ? "stopping" : status}
        </span>
        <span className="run-agent">{agentId ?? "no agent"}</span>
        <span className="run-when" title={fullTime(startedAt)}>
          <Time at={startedAt} />
        </span>
      </div>
      <div className="run-id">
        <code title={runId}>{runId}</code>
        <IconButton
          label="Copy the run’s id"
          onClick={() => void copyText(runId).then(() => tell("Copied: the run’s id"), fail)}
        >
          <Copy />
        </IconButton>
      </div>
      <p className="run-facts">
        <span>{clock(startedAt)}</span>
        <span>{endedAt ? `took ${duration(Date.parse(endedAt) - Date.parse(startedAt))}` : "under way"}</span>
        {lastSeq >= firstSeq ? (
          <span>
            events{" "}
            <button type="button" className="link" onClick={() => onShow(firstSeq)}>
              {count(firstSeq)}
            </button>
            –
            <button type="button" className="link" onClick={() => onShow(lastSeq)}>
              {count(lastSeq)}
            </button>
          </span>
        ) : (
          <span>no events</span>
        )}
        {usage && <span title={usage.title}>{usage.text}</span>}
      </p>
      {(errorCode || errorMessage) && (
        <p className="run-error">
          {errorCode && <code>{errorCode}</code>} {errorMessage}
        </p>
      )}
      {isActive && <StopButton run={run} log={log} />}
    </div>
  );
});
