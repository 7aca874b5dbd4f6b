import { Braces, ChevronLeft, ChevronRight, Clock, Hash, SquareTerminal, X } from "lucide-react";
import { IconButton } from "../../parts/Button.tsx";
import { Loading } from "../../parts/Blank.tsx";
import { copyText } from "../../parts/copy.ts";
import { useNotices } from "../../parts/notices.tsx";
import { useAsker } from "../asker.ts";
import { eventCommand } from "../curl.ts";
import { JsonText } from "../json/JsonText.tsx";
import type { ThreadLog } from "../log/thread-log.ts";
import { useEvent } from "../log/use-log.ts";
import { move, type Place } from "../place.ts";
import { clock, delta, fullTime, shortId } from "../time.ts";
import { railOf } from "./EventRow.tsx";
import { familyOf } from "./families.ts";
import { line } from "./preview.ts";
import { useRawEvent } from "./raw.ts";

/** All of an event. */
export function EventDetail(props: {
  readonly place: Place;
  readonly log: ThreadLog;
  readonly tail: number;
  readonly seq: number;
}) {
  const { place, log, tail, seq } = props;
  const logged = useEvent(log, seq);
  const before = useEvent(log, seq > 1 ? seq - 1 : undefined);
  const { epoch } = log.getSnapshot();
  const raw = useRawEvent(log, logged, epoch);
  const asker = useAsker();
  const { tell, fail } = useNotices();
  const copy = (text: string, what: string) => void copyText(text).then(() => tell(`Copied: ${what}`), fail);
  const open = (event: number | undefined) => move(place, { event }, { replace: true });
  const started = logged && log.runs.get(logged.runId)?.startedAt;
  return (
    <section className="event-detail" aria-label={`Event ${seq}`}>
      <header>
        <h2>
          <span className="event-seq">{seq}</span>
          {logged && <span className={`family-${familyOf(logged.event.type)}`}>{line(String(logged.event.type))}</span>}
        </h2>
        <IconButton label="Earlier event" disabled={seq <= 1} onClick={() => open(seq - 1)}>
          <ChevronLeft />
        </IconButton>
        <IconButton label="Later event" disabled={seq >= tail} onClick={() => open(seq + 1)}>
          <ChevronRight />
        </IconButton>
        <IconButton
          label="Copy JSON"
          disabled={raw === undefined}
          onClick={() => copy(raw ?? "", `event ${seq} as JSON`)}
        >
          <Braces />
        </IconButton>
        <IconButton label="Copy seq" onClick={() => copy(String(seq), `seq ${seq}`)}>
          <Hash />
        </IconButton>
        <IconButton
          label="Copy this event as curl"
          onClick={() => copy(eventCommand(asker, place.threadId, epoch, seq), `event ${seq} as curl`)}
        >
          <SquareTerminal />
        </IconButton>
        <IconButton
          label="Show the thread as of here"
          aria-pressed={place.at === seq}
          disabled={!logged}
          onClick={() => move(place, { at: seq === tail ? undefined : seq })}
        >
          <Clock />
        </IconButton>
        <IconButton label="Close the event" onClick={() => open(undefined)}>
          <X />
        </IconButton>
      </header>
      {logged ? (
        <>
          <p className="event-facts">
            <time dateTime={logged.at} title={fullTime(logged.at)}>
              {clock(logged.at)}
            </time>
            {before && <span title="since the event before">{delta(before.at, logged.at)}</span>}
            {started && <span title="since its run began">run {delta(started, logged.at)}</span>}
            <button
              type="button"
              className={`run-chip rail-${railOf(logged.runId)}`}
              title={`Copy the run's id: ${logged.runId}`}
              onClick={() => copy(logged.runId, "the run’s id")}
            >
              {shortId(logged.runId)}
            </button>
          </p>
          {raw === undefined ? (
            <Loading what={`event ${seq}`} />
          ) : (
            <JsonText json={raw} label={`Event ${seq} as JSON`} />
          )}
        </>
      ) : seq < 1 || seq > tail ? (
        <p className="event-missing">
          The log has no event {seq}: its newest one is {tail}.
        </p>
      ) : (
        <Loading what={`event ${seq}`} />
      )}
    </section>
  );
}
