import type { LoggedEvent } from "threadline";

/** A pause of the recording is not kept for longer, in milliseconds. */
export const LONGEST_PAUSE_MS = 1_000;

/** The position of a recording, and the time since its last event, in milliseconds. */
export interface Playing {
  readonly seq: number;
  readonly credit: number;
}

/** The recording after some time more, up to `tail`: events that came together come together. It waits for what is not at hand. */
export function played(
  { seq, credit }: Playing,
  ms: number,
  tail: number,
  peek: (seq: number) => LoggedEvent | undefined,
): Playing {
  let left = credit + ms;
  for (; seq < tail; seq += 1) {
    const [last, next] = [peek(seq), peek(seq + 1)];
    // Nothing is saved up while it waits.
    if (!next || (!last && seq > 0)) return { seq, credit: 0 };
    const pause = last ? Date.parse(next.at) - Date.parse(last.at) : 0;
    const cost = Math.min(Math.max(pause, 0), LONGEST_PAUSE_MS);
    if (cost > left) return { seq, credit: left };
    left -= cost;
  }
  return { seq, credit: 0 };
}
