// Whole runs: what is saved in one piece, under an id that says what it is, so that saving it again changes nothing.

import { isProblem } from "../errors.js";
import { WHOLE_RUN_BYTES } from "../limits.js";
import type { ThreadRef } from "../threads.js";
import type { AgUiEvent } from "../types.js";
import { digest, type KeyedResult, recordEvents } from "./record.js";
import { resultUnits, sizeOf, type Unit } from "./view.js";

/** Begins the ids of the runs that this adapter writes. */
export const OURS = "ak:";
/** The server's limit of an id, in bytes, less what goes before it. */
const ID_BYTES = 200;

/** What a run holds: a user's turn, results, network state, what one agent streamed, what a network streams. */
type Kind = "u" | "r" | "s" | "l" | "n";

/** A user's turn. */
export interface UserTurn {
  readonly id: string;
  readonly content: string;
  /** Milliseconds since 1970. */
  readonly at: number;
}

/** A run to be put. */
export interface WholeRun {
  readonly runId: string;
  readonly events: readonly AgUiEvent[];
}

/** An id of a run of ours, for what the names say. */
export async function runIdOf(kind: Kind, names: readonly string[]): Promise<string> {
  const [name = ""] = names;
  // Visible ASCII needs no thought about lengths, control characters and halves of characters.
  const usable = names.length === 1 && name.length <= ID_BYTES && /^[\x21-\x7e]+$/.test(name);
  return `${OURS}${kind}:${usable ? name : await digest(JSON.stringify(names))}`;
}

/** The events of a run, with its own around them. */
export function whole(threadId: string, runId: string, events: readonly AgUiEvent[]): WholeRun {
  const begun = { type: "RUN_STARTED", threadId, runId };
  return { runId, events: [begun, ...events, { type: "RUN_FINISHED", threadId, runId }] };
}

/** The run that holds a user's turn. */
export async function userRun(threadId: string, turn: UserTurn): Promise<WholeRun> {
  const runId = await runIdOf("u", [turn.id]);
  const messages = [{ id: turn.id, role: "user", content: turn.content }];
  const input = { threadId, runId, messages, tools: [], context: [], state: {}, forwardedProps: {} };
  return {
    runId,
    events: [
      { type: "RUN_STARTED", threadId, runId, timestamp: turn.at, input },
      { type: "RUN_FINISHED", threadId, runId },
    ],
  };
}

/** The runs that hold these results: one run, unless that would be too large. */
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
    const units = resultUnits(keyed, streamed.has(key));
    const step = { stepName: result.agentName };
    const sizes = units.map(sizeOf);
    // A step begins and ends in one run.
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

/** Saves a run. One that is there already under this id stays as it is: the first one counts. */
export async function put(thread: ThreadRef, run: WholeRun, agentId: string | undefined): Promise<void> {
  try {
    await thread.putRun(run.runId, run.events, agentId === undefined ? {} : { agentId });
  } catch (error) {
    // The same results, said again by an execution that made their times anew.
    if (!isProblem(error, "producer-seq-conflict")) throw error;
  }
}
