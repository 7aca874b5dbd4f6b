import { ChevronFirst, ChevronLeft, ChevronRight, Pause, Play, Radio } from "lucide-react";
import { type KeyboardEvent, useEffect, useRef, useState } from "react";
import { IconButton } from "../parts/Button.tsx";
import type { ThreadLog } from "./log/thread-log.ts";
import { useEvent } from "./log/use-log.ts";
import { move, type Place } from "./place.ts";
import { type Playing, played } from "./play.ts";
import { RunStrip } from "./RunStrip.tsx";
import { clock, count, delta, fullTime } from "./time.ts";

/** Browsers allow only so many changes of the address. */
const ADDRESS_MS = 125;
const TICK_MS = 50;
const PAGE = 50;

/** A scale of all events: where one is on it, the thread is shown as it was then. At its end it is now. */
export function Scrubber(props: { readonly place: Place; readonly log: ThreadLog; readonly tail: number }) {
  const { place, log, tail } = props;
  const [shown, setShown] = useSteps(place, tail);
  const value = Math.min(shown ?? tail, tail);
  const isNow = shown === undefined;
  const [isPlaying, setPlaying] = usePlaying(log, tail, value, setShown);
  const step = (to: number) => {
    setPlaying(false);
    setShown(to);
  };
  const keyed = (event: KeyboardEvent) => {
    const to = {
      ArrowLeft: value - 1,
      ArrowDown: value - 1,
      ArrowRight: value + 1,
      ArrowUp: value + 1,
      PageDown: value - PAGE,
      PageUp: value + PAGE,
      Home: 1,
      End: tail,
    }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    step(to);
  };
  const at = useEvent(log, value);
  const before = useEvent(log, value - 1);
  // Soon to be asked for, where it is played.
  useEvent(log, value < tail ? value + 1 : undefined);
  return (
    <section className="scrubber" aria-label="Timeline">
      <div className="scrubber-scale">
        <RunStrip log={log} tail={tail} />
        <input
          type="range"
          aria-label="Event"
          aria-valuetext={`event ${value} of ${tail}${isNow ? ", now" : ""}`}
          min={Math.min(1, tail)}
          max={tail}
          value={value}
          disabled={tail === 0}
          onChange={(event) => step(Number(event.target.value))}
          onKeyDown={keyed}
        />
      </div>
      <div className="scrubber-line">
        <IconButton label="First event" disabled={value <= 1} onClick={() => step(1)}>
          <ChevronFirst />
        </IconButton>
        <IconButton label="Previous event" disabled={value <= 1} onClick={() => step(value - 1)}>
          <ChevronLeft />
        </IconButton>
        <IconButton
          label={isPlaying ? "Pause" : "Play"}
          disabled={tail < 2}
          onClick={() => {
            // From the end there is only the beginning to go to.
            if (!isPlaying && isNow) setShown(1);
            setPlaying(!isPlaying);
          }}
        >
          {isPlaying ? <Pause /> : <Play />}
        </IconButton>
        <IconButton label="Next event" disabled={value >= tail} onClick={() => step(value + 1)}>
          <ChevronRight />
        </IconButton>
        <p className="scrubber-where">
          {tail === 0 ? (
            "no events yet"
          ) : (
            <>
              <span>
                event <strong>{count(value)}</strong> of {count(tail)}
              </span>
              {at && (
                <span>
                  <time dateTime={at.at} title={fullTime(at.at)}>
                    {clock(at.at)}
                  </time>
                  {before && <span title="since the event before">{delta(before.at, at.at)}</span>}
                </span>
              )}
            </>
          )}
        </p>
        <button
          type="button"
          className="now-button"
          aria-pressed={isNow}
          title="Show the thread as it is now"
          onClick={() => step(tail)}
        >
          <Radio aria-hidden="true" />
          Now
        </button>
      </div>
    </section>
  );
}

/** Where one is: at once here, in the address as soon as it may be changed. Undefined is now, which is the end of the scale. */
function useSteps(place: Place, tail: number): readonly [number | undefined, (to: number) => void] {
  const [ahead, setAhead] = useState<{ readonly at: number | undefined }>();
  const last = useRef(0);
  const latest = useRef({ place, tail });
  latest.current = { place, tail };
  useEffect(() => {
    if (!ahead) return;
    const timer = setTimeout(
      () => {
        last.current = performance.now();
        move(latest.current.place, { at: ahead.at }, { replace: true });
        setAhead((now) => (now === ahead ? undefined : now));
      },
      Math.max(0, last.current + ADDRESS_MS - performance.now()),
    );
    return () => clearTimeout(timer);
  }, [ahead]);
  const set = (to: number) => {
    const seq = Math.max(1, to);
    setAhead({ at: seq >= latest.current.tail ? undefined : seq });
  };
  return [ahead ? ahead.at : place.at, set];
}

/** Steps through the events as they came. */
function usePlaying(log: ThreadLog, tail: number, value: number, set: (to: number) => void) {
  const [isPlaying, setPlaying] = useState(false);
  const latest = useRef({ tail, value, set });
  latest.current = { tail, value, set };
  useEffect(() => {
    if (!isPlaying) return;
    let playing: Playing = { seq: latest.current.value, credit: 0 };
    let before = performance.now();
    const timer = setInterval(() => {
      const { tail, set } = latest.current;
      const now = performance.now();
      const { seq } = playing;
      playing = played(playing, now - before, tail, (seq) => log.pages.peek(seq));
      before = now;
      if (playing.seq !== seq) set(playing.seq);
      if (playing.seq >= tail) setPlaying(false);
    }, TICK_MS);
    return () => clearInterval(timer);
  }, [log, isPlaying]);
  return [isPlaying, setPlaying] as const;
}
