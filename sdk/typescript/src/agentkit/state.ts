// Network state in the log: `{ data, kv }`, as a STATE_SNAPSHOT followed by a STATE_DELTA for each key that a run has
// changed.

import type { State, StateData } from "@inngest/agent-kit";
import type { AgUiEvent, JsonPatchOperation } from "../types.js";
import { jsonText } from "./record.js";

type Values = Readonly<Record<string, unknown>>;

/** The two stores of a network's state, as JSON values. */
export interface StoredState {
  readonly data: Values;
  readonly kv: Values;
}

const PARTS = ["data", "kv"] as const;

/** Copies the current content of the stores. */
export function takeState<T extends StateData>(state: State<T>): StoredState {
  return JSON.parse(jsonText({ data: { ...state.data }, kv: state.kv.all() })) as StoredState;
}

/**
 * Restores a stored state into the state of a new run. Stored values override those of the run, except for the `kept` keys,
 * because everyone with write access to the thread, including its user, can change the stored values.
 */
export function giveState<T extends StateData>(state: State<T>, stored: StoredState, kept: readonly string[]): void {
  for (const [key, value] of Object.entries(stored.data)) {
    // Defined, not assigned: a key may be named like a member of the prototype.
    if (!kept.includes(key)) Object.defineProperty(state.data, key, { value, ...ORDINARY });
  }
  for (const [key, value] of Object.entries(stored.kv)) if (!kept.includes(key)) state.kv.set(key, value);
  // AgentKit starts with a copy of `data` in `kv`: a key that is stored in only one of them was deleted.
  for (const key of Object.keys(stored.data)) {
    if (!(key in stored.kv) && !kept.includes(key)) state.kv.delete(key);
  }
}

const ORDINARY = { enumerable: true, writable: true, configurable: true };

/** The stored state in a thread's state; `undefined` if it was not written by this module. */
export function storedIn(state: unknown): StoredState | undefined {
  if (!isObject(state) || !isObject(state["data"]) || !isObject(state["kv"])) return undefined;
  return { data: state["data"], kv: state["kv"] };
}

/**
 * The events that apply a run's changes, from `before` to `now`, to the thread's state `current`. Keys that the run has not
 * changed keep their current values, which may have been changed concurrently.
 */
export function stateEvents(current: unknown, before: StoredState | undefined, now: StoredState): AgUiEvent[] {
  // The state of a thread that never had one is an empty object.
  if (!isObject(current) || Object.keys(current).length === 0) return [{ type: "STATE_SNAPSHOT", snapshot: now }];
  const operations: JsonPatchOperation[] = [];
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
  // One event for each key, so that a key that was removed meanwhile invalidates only its own delta.
  return operations.map((operation) => ({ type: "STATE_DELTA", delta: [operation] }));
}

function pointer(part: string, key: string): string {
  return `/${part}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
