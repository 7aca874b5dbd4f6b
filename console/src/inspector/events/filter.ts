import type { AnyEvent } from "../../untrusted.ts";
import { choiceOf, choicesOf, type Family } from "./families.ts";

/** Which events are shown. */
export interface Filter {
  /** Types that are left out. */
  readonly hidden: ReadonlySet<string>;
  /** Only this run. */
  readonly runId: string | undefined;
  /** Only events with this in their JSON, in either case. */
  readonly text: string;
}

export const EVERYTHING: Filter = { hidden: new Set(), runId: undefined, text: "" };

export function isActive({ hidden, runId, text }: Filter): boolean {
  return hidden.size > 0 || runId !== undefined || text !== "";
}

/** What tells whether an event is shown. */
export function matcher({ hidden, runId, text }: Filter): (event: AnyEvent, runId: string) => boolean {
  const wanted = text.toLowerCase();
  return (event, of) => {
    if (runId !== undefined && of !== runId) return false;
    if (hidden.size > 0 && hidden.has(choiceOf(event.type))) return false;
    return wanted === "" || JSON.stringify(event).toLowerCase().includes(wanted);
  };
}

/** Whether a family is shown: all of its types, none, or some. */
export function shownOf({ hidden }: Filter, family: Family): "all" | "none" | "some" {
  const choices = choicesOf(family);
  const left = choices.filter((type) => hidden.has(type)).length;
  return left === 0 ? "all" : left === choices.length ? "none" : "some";
}

/** Shows or leaves out types. */
export function withTypes(filter: Filter, types: readonly string[], isShown: boolean): Filter {
  const hidden = new Set(filter.hidden);
  for (const type of types) {
    if (isShown) hidden.delete(type);
    else hidden.add(type);
  }
  return { ...filter, hidden };
}
