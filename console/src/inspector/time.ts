// Times as one compares them: to the millisecond.

/** The time of day here, as `12:03:04.123`. */
export function clock(at: string): string {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return "–";
  const two = (value: number) => String(value).padStart(2, "0");
  const time = [date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(":");
  return `${time}.${String(date.getMilliseconds()).padStart(3, "0")}`;
}

/** Made once: making one takes longer than a row of a list may. */
const DAY = new Intl.DateTimeFormat(undefined, { dateStyle: "full" });

/** A day and a time, for tooltips. */
export function fullTime(at: string): string {
  const date = new Date(at);
  return Number.isNaN(date.getTime()) ? at : `${DAY.format(date)}, ${clock(at)}`;
}

/** How long something took: `350 ms`, `1.25 s`, `2 min 05 s`, `3 h 04 min`. */
export function duration(ms: number): string {
  if (!Number.isFinite(ms)) return "–";
  if (ms < 0) return `−${duration(-ms)}`;
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  // Rounded first: there is no `60.00 s`.
  if (Math.round(ms / 10) < 6_000) return `${(ms / 1_000).toFixed(2)} s`;
  const seconds = Math.round(ms / 1_000);
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min ${String(seconds % 60).padStart(2, "0")} s`;
  const minutes = Math.round(seconds / 60);
  return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
}

/** The time from one moment to another, with its sign: `+350 ms`. */
export function delta(from: string, to: string): string {
  const ms = Date.parse(to) - Date.parse(from);
  return ms < 0 ? duration(ms) : `+${duration(ms)}`;
}

const NUMBER = new Intl.NumberFormat("en");

/** A count that can be read: `123,456`. */
export function count(value: number): string {
  return NUMBER.format(value);
}

/** The end of an id, which is what tells ids apart; all of it where it is short. */
export function shortId(id: string): string {
  const characters = [...id];
  return characters.length <= 10 ? id : `…${characters.slice(-8).join("")}`;
}
