// The picker of a branch that gets the focus in the branch that was picked with it.

/** A direction in which a picker goes. */
export type Step = "previous" | "next";

let expected: { readonly threadId: string; readonly seq: number; readonly step: Step } | undefined;

/** Expects the page to show the picker at this place of a thread. */
export function expectArrival(threadId: string, seq: number, step: Step): void {
  expected = { threadId, seq, step };
}

/** The place of a thread at which a picker is expected, and the step that led there. */
export function expectedIn(threadId: string | undefined): { readonly seq: number; readonly step: Step } | undefined {
  return expected?.threadId === threadId ? expected : undefined;
}

/** Time in milliseconds in which parts of the page that appear later leave the focus to the picker. */
const SETTLED = 1_000;

/** The picker that was expected has the focus. */
export function arrived(): void {
  const reached = expected;
  setTimeout(() => {
    if (expected === reached) expected = undefined;
  }, SETTLED);
}
