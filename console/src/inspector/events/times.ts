/** What the column of times shows. */
export type Times = "clock" | "run" | "delta";

export const TIMES: Readonly<Record<Times, string>> = {
  clock: "Time of day",
  run: "Since the start of the run",
  delta: "Since the previous event",
};

const KEY = "threadline.times";

/** What was chosen on this device. */
export function timesKept(): Times {
  const kept = localStorage.getItem(KEY);
  return kept === "run" || kept === "delta" ? kept : "clock";
}

export function keepTimes(times: Times): void {
  localStorage.setItem(KEY, times);
}
