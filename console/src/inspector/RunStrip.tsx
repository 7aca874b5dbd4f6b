import { memo } from "react";
import type { Run } from "threadline";
import type { ThreadLog } from "./log/thread-log.ts";
import { useRuns } from "./log/use-log.ts";

/** Where runs begin and end on the scale. */
export const RunStrip = memo(function RunStrip({ log, tail }: { readonly log: ThreadLog; readonly tail: number }) {
  const { runs } = useRuns(log);
  if (tail === 0) return null;
  return (
    <svg className="run-strip" viewBox={`0 0 ${tail} 1`} preserveAspectRatio="none" aria-hidden="true">
      {segments(runs, tail).map(({ runId, from, to, status }) => (
        <rect key={runId} className={`status-${status}`} x={from - 1} width={Math.max(to - from + 1, 0)} height={1} />
      ))}
    </svg>
  );
});

interface Segment {
  readonly runId: string;
  readonly from: number;
  readonly to: number;
  readonly status: Run["status"];
}

/** The part of the log of each run, with a gap before it where there is room for one. The active run extends to the tail. */
function segments(runs: readonly Run[], tail: number): Segment[] {
  const gap = tail / 300;
  return runs.flatMap(({ runId, firstSeq, lastSeq, status, endedAt }) => {
    const to = endedAt === null ? tail : lastSeq;
    if (to < firstSeq) return [];
    const from = firstSeq > 1 && to - firstSeq + 1 > 3 * gap ? firstSeq + gap : firstSeq;
    return { runId, from, to, status };
  });
}
