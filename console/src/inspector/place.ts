import { go, type Panel } from "../route.ts";

/** The id of the button that opens it. */
export const INSPECTOR_BUTTON = "inspector-button";

/** Where one is in the inspector. */
export interface Place {
  readonly threadId: string;
  readonly panel: Panel;
  /** Seq after which the thread is shown; undefined is now. */
  readonly at: number | undefined;
  /** The event that is open. */
  readonly event: number | undefined;
}

/** Goes to a place in the inspector. Steps on the scale are no places that Back comes back to. */
export function move(from: Place, to: Partial<Omit<Place, "threadId">>, options?: { replace?: boolean }): void {
  const { threadId, panel, at, event } = { ...from, ...to };
  go({ name: "thread", threadId, panel, at, event }, options);
}

/** Closes the inspector: the thread is shown as it is now. Focus returns to the button that opened it. */
export function leave({ threadId }: Place): void {
  document.getElementById(INSPECTOR_BUTTON)?.focus();
  go({ name: "thread", threadId });
}
