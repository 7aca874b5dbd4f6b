// Events of AG-UI, of an agent that is called elsewhere.

import { readInterrupts } from "../conversation/read.js";
import { newId } from "../ids.js";
import { RESERVED_NAMES } from "../log.js";
import { MessageIds } from "../message-ids.js";
import type { Interrupt, NewEvent } from "../types.js";
import { isAgUi } from "./shape.js";
import { event, failed, type Item, type Source, textOf } from "./source.js";

export class AgUiEvents implements Source {
  readonly interrupts: Interrupt[] = [];
  readonly #ids = new MessageIds(newId(), true);
  #count = 0;
  /** The reasoning that THINKING_* events continue, which have no ids. */
  #thought = newId();

  of(item: Item): NewEvent[] | undefined {
    const type = textOf(item["type"]);
    if (type === "RUN_ERROR") throw failed(item);
    if (type === "RUN_FINISHED") this.interrupts.push(...readInterrupts(item["outcome"]));
    // Beginning and end of the run are this producer's.
    if (type.startsWith("RUN_")) return [];
    if (!isAgUi(type) || textOf(item["name"]).startsWith(RESERVED_NAMES)) return undefined;
    if (!isJson(item)) return undefined;
    if (type.startsWith("THINKING_")) return this.#think(type.slice("THINKING_".length), item);
    return [this.#ids.given(item as NewEvent & Item, (this.#count += 1))];
  }

  /** Reasoning, as releases before AG-UI 1.0 have it. */
  #think(edge: string, { title: _, ...members }: Item): NewEvent[] | undefined {
    if (edge === "START") this.#thought = newId();
    const part = /^(TEXT_)?(MESSAGE_(?:START|CONTENT|END)|START|END)$/.exec(edge)?.[2];
    if (part === undefined) return undefined;
    const role = part === "MESSAGE_START" ? { role: "reasoning" } : {};
    return [event(`REASONING_${part}`, { ...members, ...role, messageId: this.#thought, type: `REASONING_${part}` })];
  }

  last(): NewEvent[] {
    return [];
  }
}

function isJson(item: Item): boolean {
  try {
    return typeof JSON.stringify(item) === "string";
  } catch {
    return false;
  }
}
