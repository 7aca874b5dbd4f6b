// Events of AG-UI, of an agent that is called elsewhere.

import { readInterrupts } from "../conversation/read.js";
import { newId } from "../ids.js";
import { RESERVED_NAMES } from "../log.js";
import { MessageIds } from "../message-ids.js";
import type { Interrupt, NewEvent } from "../types.js";
import { isAgUi } from "./shape.js";
import { failed, type Item, type Source, textOf } from "./source.js";

export class AgUiEvents implements Source {
  readonly interrupts: Interrupt[] = [];
  readonly #ids = new MessageIds(newId(), true);
  #count = 0;

  of(item: Item): NewEvent[] | undefined {
    const type = textOf(item["type"]);
    if (type === "RUN_ERROR") throw failed(item);
    if (type === "RUN_FINISHED") this.interrupts.push(...readInterrupts(item["outcome"]));
    // Beginning and end of the run are this producer's.
    if (type.startsWith("RUN_")) return [];
    if (!isAgUi(type) || textOf(item["name"]).startsWith(RESERVED_NAMES)) return undefined;
    if (!isJson(item)) return undefined;
    return [this.#ids.given(item as NewEvent & Item, (this.#count += 1))];
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
