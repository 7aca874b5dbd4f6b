// An interpreter of proto/connection.json, written from the file and not from the machine.

import { readFileSync } from "node:fs";
import type { Draw, Effect, Input, Machine, State } from "../../src/connection/machine.js";

type Value = boolean | number | string;

interface Rule {
  when?: Record<string, boolean>;
  set?: Record<string, Value>;
  then?: string;
  to?: string;
  wait?: string;
}

/** The description of a client's connection. */
export const CONNECTION = JSON.parse(
  readFileSync(new URL("../../../../proto/connection.json", import.meta.url), "utf8"),
) as {
  states: Record<string, string>;
  events: Record<string, string>;
  transitions: Record<string, Record<string, string>>;
  moves: Record<string, Rule[]>;
  effects: {
    leave: Record<string, string>;
    enter: Record<string, string>;
    keep: { from: string; to: string; not: string };
    stay: { state: string; event: string; do: string };
  };
  backoff: { baseMs: number; maxMs: number; requestedMaxMs: number };
  limits: Record<string, number>;
  errors: {
    retryableStatuses: number[];
    closeCodes: { unauthorized: number[]; refused: (number | string)[] };
    ended: { final: string[]; done: string[]; ignored: string[] };
  };
};

/** What the description says of an input: the machine after it, and the effects. */
export function expected(
  { transitions, moves, effects, backoff, limits }: typeof CONNECTION,
  before: Machine,
  input: Input,
  { now, chance }: Draw,
): { machine: Machine; effects: Effect[] } {
  const error = "error" in input ? input.error : undefined;
  const memory: Record<string, Value> = { ...before } as never;
  let state: State = before.state;

  const conditions: Record<string, () => boolean> = {
    online: () => memory["online"] === true,
    renewed: () => memory["renewed"] === true,
    best: () => memory["transport"] === 0,
    last: () => memory["transport"] === before.transports - 1,
    lastStrike: () => Number(memory["strikes"]) + 1 >= limits["strikes"]!,
    preferAgain: () =>
      Number(memory["transport"]) > 0 && now - Number(memory["fellBackAt"]) >= limits["preferAgainMs"]!,
    retryable: () => error?.retryable === true,
  };
  const read = (name: string, value: Value): Value => {
    if (value === "+1") return Number(memory[name]) + 1;
    if (value === "limit - 1") return limits["strikes"]! - 1;
    return value === "now" ? now : value;
  };
  const waitMs = (wait: string) => {
    if (wait !== "backoff") return limits[wait]!;
    const requested = Math.min(error?.retryAfterMs ?? 0, backoff.requestedMaxMs);
    const bound = Math.min(backoff.maxMs, backoff.baseMs * 2 ** (Number(memory["failures"]) - 1));
    return requested + chance * bound;
  };

  let move = transitions[before.state.name]?.[input.name];
  while (move !== undefined) {
    const rule = moves[move]!.find(({ when = {} }) =>
      Object.entries(when).every(([is, it]) => conditions[is]!() === it),
    );
    if (!rule) break;
    for (const [name, value] of Object.entries(rule.set ?? {})) memory[name] = read(name, value);
    if (rule.to !== undefined) {
      const hasError = rule.to === "waiting" || rule.to === "failed";
      state = {
        name: rule.to,
        ...(rule.wait !== undefined && { waitMs: waitMs(rule.wait) }),
        ...(hasError && { error }),
      } as State;
    }
    move = rule.then;
  }

  const list: Effect[] = [];
  const { name } = state;
  if (state === before.state) {
    const { stay } = effects;
    if (stay.state === name && stay.event === input.name) list.push({ do: stay.do } as Effect);
  } else {
    const left = effects.leave[before.state.name];
    const { keep } = effects;
    const isKept = keep.from === before.state.name && keep.to === name && keep.not === left;
    if (left !== undefined && !isKept) list.push({ do: left } as Effect);
    const entered = effects.enter[name];
    if (state.name === "waiting") list.push({ do: "wait", ms: state.waitMs, error: state.error });
    else if (state.name === "offline" && entered === "wait")
      list.push({ do: "wait", ms: state.waitMs, error: undefined });
    else if (entered === "fail") list.push({ do: "fail", error } as Effect);
    else if (entered !== undefined) list.push({ do: entered } as Effect);
  }
  return { machine: { ...(memory as unknown as Machine), state }, effects: list };
}
