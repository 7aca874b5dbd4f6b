import { useEffect, useState } from "react";
import { serverClock } from "../clock.ts";
import { Running } from "../threads/ThreadRow.tsx";

/** For how long a run has been under way. */
export function RunningFor({
  since,
  isStopping,
}: {
  readonly since: string | undefined;
  readonly isStopping: boolean;
}) {
  const [mounted] = useState(serverClock.now);
  const begun = since === undefined ? mounted : new Date(since).getTime();
  const [now, setNow] = useState(serverClock.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(serverClock.now()), 1_000);
    return () => clearInterval(timer);
  }, []);
  return (
    <span className="running-for">
      <Running />
      <span>
        {isStopping ? "stopping" : "running"} for {lasting(1_000 * Math.max(0, Math.floor((now - begun) / 1_000)))}
      </span>
    </span>
  );
}

/** A span of time, as people say it: "0.4 s", "12 s", "3 min 5 s", "2 h 10 min". */
export function lasting(ms: number): string {
  if (ms > 0 && ms < 950) return `${Math.max(0.1, Math.round(ms / 100) / 10)} s`;
  const seconds = Math.floor((ms + 50) / 1_000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3_600) return both(Math.floor(seconds / 60), "min", seconds % 60, "s");
  return both(Math.floor(seconds / 3_600), "h", Math.floor((seconds % 3_600) / 60), "min");
}

function both(large: number, unit: string, small: number, part: string): string {
  return small === 0 ? `${large} ${unit}` : `${large} ${unit} ${small} ${part}`;
}
