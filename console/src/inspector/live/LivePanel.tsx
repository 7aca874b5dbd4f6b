import { LockKeyhole, LockKeyholeOpen } from "lucide-react";
import { useEffect, useState } from "react";
import type { ConnectionStatus, Run, Thread } from "threadline";
import { serverClock } from "../../clock.ts";
import { useConnection } from "../../connection.ts";
import { Loading } from "../../parts/Blank.tsx";
import { messageOf } from "../../parts/failure.ts";
import type { ThreadLog } from "../log/thread-log.ts";
import { useRuns } from "../log/use-log.ts";
import { StopButton } from "../runs/StopButton.tsx";
import { clock, duration, fullTime } from "../time.ts";
import { SubscriptionTable } from "./SubscriptionTable.tsx";
import { usePolled } from "./use-polled.ts";

/** Interval of the requests for the lock and the subscriptions, in milliseconds. */
const POLL_MS = 2_000;
const TICK_MS = 250;

/** The holder of a thread's lock, and the thread's subscriptions. */
export function LivePanel({ threadId, log }: { readonly threadId: string; readonly log: ThreadLog }) {
  const status = useConnection();
  const key = `${threadId} ${log.getSnapshot().epoch}`;
  // Polled separately: the holder of the lock is known also where the subscriptions cannot be read.
  const [thread, lockError] = usePolled(key, POLL_MS, (signal) => log.ref.get({ signal }));
  const [subscribed, error] = usePolled(key, POLL_MS, async (signal) => {
    // The tail from before the request: a subscription that keeps up is not behind events that came since.
    const { tail } = log.pages;
    return { tail, page: await log.ref.subscriptions({ signal }) };
  });
  return (
    <div className="live-panel">
      <Refusal error={lockError} />
      {thread ? <Lock thread={thread} log={log} /> : lockError === null && <Loading what="who holds the lock" />}
      <section aria-labelledby="subscribed-title">
        <h2 id="subscribed-title">Subscribers</h2>
        <Refusal error={error} />
        {subscribed && <SubscriptionTable {...subscribed} />}
      </section>
      <section aria-labelledby="connection-title">
        <h2 id="connection-title">This page</h2>
        <p className="connection">
          <span className={`connection-dot is-${status.state}`} aria-hidden="true" />
          {said(status)}
        </p>
        <p className="soft">
          It has two of the subscriptions above: one for the conversation and one for the inspector.
        </p>
      </section>
    </div>
  );
}

function Refusal({ error }: { readonly error: unknown }) {
  if (error === null) return null;
  return (
    <p className="inspector-note failed" role="alert">
      {messageOf(error)}
    </p>
  );
}

function Lock({ thread, log }: { readonly thread: Thread; readonly log: ThreadLog }) {
  const { activeRun } = thread;
  const [last] = useRuns(log).runs;
  return (
    <section aria-labelledby="lock-title">
      <h2 id="lock-title">
        {activeRun ? <LockKeyhole aria-hidden="true" /> : <LockKeyholeOpen aria-hidden="true" />}Lock
      </h2>
      {activeRun ? (
        <Holder run={activeRun} log={log} />
      ) : (
        <>
          <p>No run holds the lock.</p>
          {last?.endedAt && (
            <p className="soft">
              The last run ended at{" "}
              <time dateTime={last.endedAt} title={fullTime(last.endedAt)}>
                {clock(last.endedAt)}
              </time>
              : {last.status}
              {last.errorCode && (
                <>
                  {" "}
                  (<code>{last.errorCode}</code>)
                </>
              )}
              .
            </p>
          )}
        </>
      )}
    </section>
  );
}

function Holder({ run, log }: { readonly run: Run; readonly log: ThreadLog }) {
  const now = useTicks(TICK_MS);
  const { runId, agentId, startedAt, leaseUntil, producerSeq, stopRequested, status, attempt, driven } = run;
  const left = leaseUntil === null ? null : Date.parse(leaseUntil) - now;
  return (
    <>
      <dl className="lock-facts">
        <dt>Run</dt>
        <dd>
          <code>{runId}</code>
        </dd>
        <dt>Agent</dt>
        <dd>{agentId ?? "none: it is pushed by a producer"}</dd>
        <dt>Status</dt>
        <dd>{status}</dd>
        <dt>Since</dt>
        <dd>
          <time dateTime={startedAt} title={fullTime(startedAt)}>
            {clock(startedAt)}
          </time>{" "}
          ({duration(Math.max(0, now - Date.parse(startedAt)))})
        </dd>
        <dt>{driven ? "Driver" : "Lease"}</dt>
        <dd>
          {driven ? (
            `the server, attempt ${attempt}`
          ) : leaseUntil === null || left === null ? (
            "none"
          ) : (
            <>
              until <time dateTime={leaseUntil}>{clock(leaseUntil)}</time>{" "}
              <span className={left < 5_000 ? "lease short" : "lease"} role="timer">
                {left > 0 ? `${(left / 1_000).toFixed(1)} s left` : `ran out ${duration(-left)} ago`}
              </span>
            </>
          )}
        </dd>
        <dt>Newest producerSeq</dt>
        <dd>{producerSeq}</dd>
        <dt>Stop requested</dt>
        <dd>{stopRequested ? "yes" : "no"}</dd>
      </dl>
      <StopButton run={run} log={log} />
    </>
  );
}

/** How this page is connected. */
function said(status: ConnectionStatus): string {
  switch (status.state) {
    case "live":
      return `Live, by ${{ websocket: "WebSocket", sse: "server-sent events", "long-poll": "long-poll" }[status.transport]}.`;
    case "idle":
      return "Not connected: there are no subscriptions.";
    case "connecting":
      return "Connecting…";
    case "reconnecting":
      return "Reconnecting…";
    case "offline":
      return "Offline: the browser has no network.";
    case "failed":
      return `Disconnected: ${messageOf(status.error)}`;
    case "closed":
      return "Closed.";
  }
}

/** The server's time, while it is shown. */
function useTicks(ms: number): number {
  const [now, setNow] = useState(serverClock.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(serverClock.now()), ms);
    return () => clearInterval(timer);
  }, [ms]);
  return now;
}
