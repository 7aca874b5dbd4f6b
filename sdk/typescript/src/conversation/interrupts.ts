import { MAX_ANSWERS, MAX_ID_BYTES, MAX_OPEN_INTERRUPT_BYTES, MAX_OPEN_INTERRUPTS } from "../limits.js";
import type { Interrupt } from "../types.js";
import { equal } from "./patch.js";
import { isObject, readInterrupts, word } from "./read.js";
import { size, utf8Bytes } from "./size.js";

/**
 * The open interrupts. An interrupt is open from the RUN_FINISHED that requests it until the RUN_FINISHED of a run whose
 * RUN_STARTED answers it in `input.resume`. No other event settles it.
 */
export class Interrupts {
  #open: readonly Interrupt[];
  /** Ids that the active run answers. Ids of interrupts that are not open are ignored. */
  #answered: ReadonlySet<string | undefined> = new Set();

  constructor(open: readonly Interrupt[]) {
    this.#open = open;
  }

  /** The open interrupts. The same list is returned until it changes. */
  get open(): readonly Interrupt[] {
    return this.#open;
  }

  /** Records the answers in the input of a started run, which take effect once the run has finished. */
  runStarted(input: unknown): void {
    const resume = isObject(input) && Array.isArray(input.resume) ? input.resume : [];
    this.#answered = new Set(resume.map(answered));
  }

  /** Discards the answers of a failed run. */
  runFailed(): void {
    this.#answered = new Set();
  }

  /**
   * Settles the interrupts that a finished run has answered, and opens those that it requests, unless they are open
   * already.
   */
  runFinished(outcome: unknown): void {
    let bytes = 0;
    const left = this.#open.filter((interrupt) => {
      const id = idOf(interrupt);
      if (id === undefined || utf8Bytes(id) > MAX_ID_BYTES || this.#answered.has(id)) return false;
      bytes += size(interrupt);
      return bytes <= MAX_OPEN_INTERRUPT_BYTES;
    });
    const open = left.slice(0, MAX_OPEN_INTERRUPTS);
    const known = new Set(open.map(idOf));
    for (const asked of readInterrupts(outcome)) {
      const id = idOf(asked);
      if (id === undefined || !known.has(id)) open.push(asked);
    }
    open.splice(MAX_ANSWERS);
    if (!equal(open, this.#open)) this.#open = open;
    this.#answered = new Set();
  }
}

function idOf({ id }: Interrupt): string | undefined {
  return typeof id === "string" ? id : undefined;
}

/** The id of the interrupt that an entry of `resume` answers. */
function answered(entry: unknown): string | undefined {
  if (!isObject(entry) || (entry.status !== "resolved" && entry.status !== "cancelled")) return undefined;
  return typeof entry.interruptId === "string" ? word(entry.interruptId) : undefined;
}
