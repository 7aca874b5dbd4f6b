// Complete runs that are saved in one request, under an id derived from their content, so that saving them again has no
// effect.

import { isProblem } from "../errors.js";
import { WHOLE_RUN_BYTES } from "../limits.js";
import type { ThreadRef } from "../threads.js";
import type { AgUiEvent, Message } from "../types.js";
import { digest, type KeyedResult, recordEvents } from "./record.js";
import { resultUnits, sizeOf, type Unit } from "./view.js";

/** Prefix of the ids of runs that this adapter writes. */
export const OURS = "ak:";
/** The server's limit of an id, in bytes, minus room for the prefix. */
const ID_BYTES = 200;

/** Contents of a run: a user's turn, results, network state, the streamed output of one agent, or of a network. */
type Kind = "u" | "r" | "s" | "l" | "n";

/** A user's turn. */
export interface UserTurn {
  readonly id: string;
  readonly content: string;
  /** Milliseconds since 1970. */
  readonly at: number;
}

/** A run to save. */
export interface WholeRun {
  readonly runId: string;
  readonly events: readonly AgUiEvent[];
}

/** The id of a run of this adapter, derived from the names. */
export async function runIdOf(kind: Kind, names: readonly string[]): Promise<string> {
  const [name = ""] = names;
  // Visible ASCII needs no further check of lengths, control characters and lone surrogates.
  const usable = names.length === 1 && name.length <= ID_BYTES && /^[\x21-\x7e]+$/.test(name);
  return `${OURS}${kind}:${usable ? name : await digest(JSON.stringify(names))}`;
}

/** The events of a run, between its start and end events. */
export function whole(threadId: string, runId: string, events: readonly AgUiEvent[]): WholeRun {
  const begun: AgUiEvent = { type: "RUN_STARTED", threadId, runId };
  return { runId, events: [begun, ...events, { type: "RUN_FINISHED", threadId, runId }] };
}

/** The run that contains a user's turn. */
export async function userRun(threadId: string, turn: UserTurn): Promise<WholeRun> {
  const runId = await runIdOf("u", [turn.id]);
  const messages: Message[] = [{ id: turn.id, role: "user", content: turn.content }];
  const input = { threadId, runId, messages, tools: [], context: [], state: {}, forwardedProps: {} };
  return {
    runId,
    events: [
      { type: "RUN_STARTED", threadId, runId, timestamp: turn.at, input },
      { type: "RUN_FINISHED", threadId, runId },
    ],
  };
}

/**
 * The runs that contain these results: one run, unless it would be too large. `streamed` has the ids of results whose messages
 * are in the log.
 */
export async function resultRuns(
  threadId: string,
  results: readonly KeyedResult[],
  streamed: ReadonlySet<string>,
): Promise<WholeRun[]> {
  const packed: { keys: string[]; events: AgUiEvent[]; size: number }[] = [];
  let current: (typeof packed)[number] | undefined;
  const add = (key: string, unit: Unit, size = sizeOf(unit)) => {
    if (!current || current.size + size > WHOLE_RUN_BYTES) packed.push((current = { keys: [], events: [], size: 0 }));
    if (current.keys.at(-1) !== key) current.keys.push(key);
    current.events.push(...unit);
    current.size += size;
  };
  for (const keyed of results) {
    const { key, result } = keyed;
    const units = resultUnits(keyed, streamed.has(result.id ?? key));
    const step = { stepName: result.agentName };
    const sizes = units.map(sizeOf);
    // A step starts and ends in one run.
    const fits = units.length > 0 && sizes.reduce((sum, size) => sum + size, 0) <= WHOLE_RUN_BYTES;
    if (fits) {
      add(key, [{ type: "STEP_STARTED", ...step }, ...units.flat(), { type: "STEP_FINISHED", ...step }]);
    } else {
      units.forEach((unit, index) => add(key, unit, sizes[index]));
    }
    for (const event of recordEvents(keyed)) add(key, [event]);
  }
  return Promise.all(
    packed.map(async ({ keys, events }, part) => {
      const runId = await runIdOf("r", part === 0 ? keys : [...keys, String(part)]);
      return whole(threadId, runId, events);
    }),
  );
}

/** Saves a run. An existing run with this id stays unchanged: the first one is kept. */
export async function put(thread: ThreadRef, run: WholeRun, agentId: string | undefined): Promise<void> {
  try {
    await thread.putRun(run.runId, run.events, agentId === undefined ? {} : { agentId });
  } catch (error) {
    // The same results, saved again by an execution that generated new times.
    if (!isProblem(error, "producer-seq-conflict")) throw error;
  }
}
