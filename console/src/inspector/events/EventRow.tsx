import { memo, useMemo } from "react";
import type { LoggedEvent } from "threadline";
import type { ThreadLog } from "../log/thread-log.ts";
import { useEvent } from "../log/use-log.ts";
import { clock, delta, fullTime } from "../time.ts";
import { exactly, isRounded } from "./exact.ts";
import { familyOf } from "./families.ts";
import { line, preview } from "./preview.ts";
import { useRawEvent } from "./raw.ts";
import type { Times } from "./times.ts";

/** Colours that tell runs apart which stand next to each other. */
const RAILS = 6;

/** As numbers are written that may have been rounded. */
const LARGE = /\d{16}|\de\+\d/;

/** An event in a line. */
export const EventRow = memo(function EventRow(props: {
  readonly id: string;
  readonly log: ThreadLog;
  readonly seq: number;
  readonly place: number;
  readonly count: number;
  readonly times: Times;
  readonly isActive: boolean;
  readonly isOpen: boolean;
  readonly isLater: boolean;
  readonly isAt: boolean;
  readonly onOpen: (seq: number) => void;
}) {
  const { id, log, seq, place, count, times, isActive, isOpen, isLater, isAt, onOpen } = props;
  const logged = useEvent(log, seq);
  const before = useEvent(log, seq > 1 ? seq - 1 : undefined);
  const isFirst = logged !== undefined && before !== undefined && before.runId !== logged.runId;
  const said = usePreview(log, logged);
  const family = logged && familyOf(logged.event.type);
  const names = [
    "event-row",
    logged && `rail-${railOf(logged.runId)}`,
    isActive && "active",
    isLater && "later",
    isAt && "at",
    isFirst && "first-of-run",
  ];
  return (
    <div
      id={id}
      role="option"
      aria-selected={isOpen}
      aria-setsize={count}
      aria-posinset={place}
      className={names.filter(Boolean).join(" ")}
      onClick={() => onOpen(seq)}
    >
      <span className="event-seq">{seq}</span>
      {logged ? (
        <>
          <time dateTime={logged.at} title={fullTime(logged.at)}>
            {timeOf(log, logged, before, times)}
          </time>
          <span className={`event-type family-${family}`} title={logged.event.type}>
            {line(String(logged.event.type))}
          </span>
          <span className="event-preview">{said}</span>
        </>
      ) : (
        <span className="event-awaited" aria-label="loading" />
      )}
    </div>
  );
});

/** What an event says, with all digits of its numbers: where some may have been rounded, as the log has it. */
function usePreview(log: ThreadLog, logged: LoggedEvent | undefined): string {
  const read = useMemo(() => (logged ? preview(logged.event) : ""), [logged]);
  const isOff = useMemo(() => logged !== undefined && LARGE.test(read) && isRounded(logged.event), [logged, read]);
  const raw = useRawEvent(log, isOff ? logged : undefined, log.getSnapshot().epoch);
  return useMemo(() => (raw === undefined ? read : preview(exactly(raw))), [raw, read]);
}

function timeOf(log: ThreadLog, logged: LoggedEvent, before: LoggedEvent | undefined, times: Times): string {
  if (times === "clock") return clock(logged.at);
  if (times === "delta") return before ? delta(before.at, logged.at) : logged.seq === 1 ? "first" : "…";
  const started = log.runs.get(logged.runId)?.startedAt;
  return started ? delta(started, logged.at) : "…";
}

/** A run's colour: always the same one. */
export function railOf(runId: string): number {
  let hash = 0;
  for (const character of runId) hash = (Math.imul(hash, 31) + character.codePointAt(0)!) | 0;
  return Math.abs(hash % RAILS);
}
