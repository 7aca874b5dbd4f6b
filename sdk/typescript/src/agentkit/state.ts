// Network state in the log: `{ data, kv }`, as STATE_SNAPSHOT and then STATE_DELTA for each key that a run has changed.

import type { State, StateData } from "@inngest/agent-kit";
import type { AgUiEvent } from "../types.js";
import { jsonText } from "./record.js";

type Values = Readonly<Record<string, unknown>>;

/** The two stores of a network's state, as JSON has them. */
export interface StoredState {
  readonly data: Values;
  readonly kv: Values;
}

const PARTS = ["data", "kv"] as const;

/** A copy of what the stores hold now. */
export function takeState<T extends StateData>(state: State<T>): StoredState {
  return JSON.parse(jsonText({ data: { ...state.data }, kv: state.kv.all() })) as StoredState;
}

/**
 * Puts what was stored into a state that a run begins with: it wins over what the run was given, but for the keys that are `kept`.
 * Whoever may write into the thread, as its user may, has written it.
 */
export function giveState<T extends StateData>(state: State<T>, stored: StoredState, kept: readonly string[]): void {
  for (const [key, value] of Object.entries(stored.data)) {
    // Defined, not assigned: a key may be called as the prototype is.
    if (!kept.includes(key)) Object.defineProperty(state.data, key, { value, ...ORDINARY });
  }
  for (const [key, value] of Object.entries(stored.kv)) if (!kept.includes(key)) state.kv.set(key, value);
  // AgentKit begins with a copy of `data` in `kv`: what is in the one and not in the other was deleted.
  for (const key of Object.keys(stored.data)) {
    if (!(key in stored.kv) && !kept.includes(key)) state.kv.delete(key);
  }
}

const ORDINARY = { enumerable: true, writable: true, configurable: true };

/** What is stored in a thread's state; `undefined` if that is nothing of ours. */
export function storedIn(state: unknown): StoredState | undefined {
  if (!isObject(state) || !isObject(state["data"]) || !isObject(state["kv"])) return undefined;
  return { data: state["data"], kv: state["kv"] };
}

/**
 * The events that bring the thread's state, `current`, to what a run has made of the `before` that it began with. Keys that
 * the run has not touched stay as they are, whoever has changed them meanwhile.
 */
export function stateEvents(current: unknown, before: StoredState | undefined, now: StoredState): AgUiEvent[] {
  // The state of a thread that never had one is an empty object.
  if (!isObject(current) || Object.keys(current).length === 0) return [{ type: "STATE_SNAPSHOT", snapshot: now }];
  const operations: object[] = [];
  for (const part of PARTS) {
    const there = current[part];
    if (!isObject(there)) operations.push({ op: "add", path: `/${part}`, value: {} });
    for (const [key, value] of Object.entries(now[part])) {
      if (before && jsonText(before[part][key]) === jsonText(value) && key in before[part]) continue;
      operations.push({ op: "add", path: pointer(part, key), value });
    }
    for (const key of Object.keys(before?.[part] ?? {})) {
      if (key in now[part] || !isObject(there) || !(key in there)) continue;
      operations.push({ op: "remove", path: pointer(part, key) });
    }
  }
  // One event each: a key that has gone meanwhile spoils only its own.
  return operations.map((operation) => ({ type: "STATE_DELTA", delta: [operation] }));
}

function pointer(part: string, key: string): string {
  return `/${part}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
