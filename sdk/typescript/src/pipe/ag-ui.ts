// Events of AG-UI, of an agent that is called elsewhere.

import { readInterrupts } from "../conversation/read.js";
import { RESERVED_NAMES } from "../log.js";
import type { Interrupt, NewEvent } from "../types.js";
import { failed, type Item, type Source, textOf } from "./source.js";

const KNOWN = /^(TEXT_MESSAGE|TOOL_CALL|REASONING|THINKING|STATE|STEP|ACTIVITY|MESSAGES|SUBAGENT)_|^(RAW|CUSTOM|REASONING)$/;

export class AgUiEvents implements Source {
  readonly interrupts: Interrupt[] = [];

  of(item: Item): NewEvent[] | undefined {
    const type = textOf(item["type"]);
    // Beginning and end of the run are this producer's.
    if (type === "RUN_STARTED") return [];
    if (type === "RUN_FINISHED") {
      this.interrupts.push(...readInterrupts(item["outcome"]));
      return [];
    }
    if (type === "RUN_ERROR") throw failed(item);
    if (!KNOWN.test(type) || textOf(item["name"]).startsWith(RESERVED_NAMES)) return undefined;
    return [item as NewEvent & Item];
  }

  last(): NewEvent[] {
    return [];
  }
}
