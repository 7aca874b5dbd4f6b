import { useEffect, useMemo, useState, useSyncExternalStore } from "react";
import { Button } from "../../parts/Button.tsx";
import { Blank } from "../../parts/Blank.tsx";
import { messageOf } from "../../parts/failure.ts";
import type { LogSnapshot, ThreadLog } from "../log/thread-log.ts";
import { move, type Place } from "../place.ts";
import { count } from "../time.ts";
import { EventDetail } from "./EventDetail.tsx";
import { EventList } from "./EventList.tsx";
import { EVERYTHING, type Filter, isActive } from "./filter.ts";
import { FilterBar } from "./FilterBar.tsx";
import { Scan, type ScanSnapshot } from "./scan.ts";
import { keepTimes, type Times, timesKept } from "./times.ts";

/** The raw events of a thread. */
export function EventsPanel(props: { readonly place: Place; readonly log: ThreadLog; readonly snapshot: LogSnapshot }) {
  const { place, log, snapshot } = props;
  const { tail } = snapshot;
  const [filter, setFilter] = useState<Filter>(EVERYTHING);
  const [times, setTimes] = useState<Times>(timesKept);
  const scan = useScan(log, filter, tail);
  const open = (seq: number) => {
    // Back closes what is open, however many were looked at.
    move(place, { event: seq }, { replace: place.event !== undefined });
  };
  return (
    <div className="events-panel">
      <FilterBar
        log={log}
        filter={filter}
        times={times}
        onFilter={setFilter}
        onTimes={(times) => {
          keepTimes(times);
          setTimes(times);
        }}
      />
      {scan && <ScanLine scan={scan.shown} end={scan.end} onCancel={scan.cancel} />}
      {tail === 0 ? (
        <Blank title="No events yet" children={<p>Events of the next run appear here live.</p>} />
      ) : scan && scan.shown.found === 0 && scan.shown.state !== "scanning" ? (
        <Blank title="No event matches">
          <Button onClick={() => setFilter(EVERYTHING)}>Show all events</Button>
        </Blank>
      ) : (
        <EventList
          // Another filter begins at its own end.
          key={scan ? scan.key : "all"}
          log={log}
          count={scan ? scan.shown.found : tail}
          seqs={scan?.shown.seqs}
          isComplete={!scan || scan.shown.state !== "scanning"}
          at={place.at}
          opened={place.event}
          times={times}
          onOpen={open}
        />
      )}
      {place.event !== undefined && <EventDetail place={place} log={log} tail={tail} seq={place.event} />}
    </div>
  );
}

/** How far the log was looked through, and what was found. */
function ScanLine(props: { readonly scan: ScanSnapshot; readonly end: number; readonly onCancel: () => void }) {
  const { scan, end, onCancel } = props;
  const { state, found, cursor, error } = scan;
  const events = `${count(found)} ${found === 1 ? "event" : "events"}`;
  const text = {
    scanning: `${events} so far`,
    done: events,
    cancelled: `${events} up to seq ${count(cursor)}; the rest was not searched`,
    failed: `${events} up to seq ${count(cursor)}. ${messageOf(error)}`,
  }[state];
  return (
    <div className="scan-line">
      <p role={state === "failed" ? "alert" : "status"}>{text}</p>
      {state === "scanning" && (
        <>
          <progress aria-label="Events searched" max={Math.max(end, 1)} value={cursor} />
          <Button onClick={onCancel}>Stop searching</Button>
        </>
      )}
    </div>
  );
}

interface Scanning {
  readonly shown: ScanSnapshot;
  readonly end: number;
  readonly key: number;
  readonly cancel: () => void;
}

/** Looks for what a filter shows, as long as it is set. */
function useScan(log: ThreadLog, filter: Filter, tail: number): Scanning | undefined {
  const [scanning, setScanning] = useState<{ readonly filter: Filter; readonly scan: Scan; readonly key: number }>();
  const isFiltered = isActive(filter);
  useEffect(() => {
    if (!isFiltered) return setScanning(undefined);
    const { epoch, tail } = log.getSnapshot();
    const { runId } = filter;
    const run = runId === undefined ? undefined : log.runs.get(runId);
    const read = (after: number, limit: number, signal: AbortSignal) => log.ref.events({ after, limit, epoch, signal });
    const range = {
      firstSeq: run?.firstSeq ?? 1,
      lastSeq: run && run.endedAt !== null ? run.lastSeq : undefined,
    };
    const scan = new Scan(read, filter, tail, range);
    const leave = log.onBatches((batches) => scan.take(batches));
    setScanning((before) => ({ filter, scan, key: (before?.key ?? 0) + 1 }));
    return () => {
      leave();
      scan.close();
    };
  }, [log, filter, isFiltered]);
  const scan = scanning?.scan;
  const subscribe = useMemo(() => scan?.subscribe ?? (() => () => {}), [scan]);
  const shown = useSyncExternalStore(subscribe, () => scan?.getSnapshot());
  if (!isFiltered) return undefined;
  if (!scan || !shown) return { shown: NOT_BEGUN, end: tail, key: 0, cancel: () => {} };
  return { shown, end: scan.end, key: scanning.key, cancel: scan.cancel };
}

const NOT_BEGUN: ScanSnapshot = { seqs: [], found: 0, cursor: 0, state: "scanning", error: null };
