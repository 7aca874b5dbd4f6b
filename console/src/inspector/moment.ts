import { useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import type { AnyMessage } from "../untrusted.ts";
import { useThreadline } from "threadline/react";
import type { Kept } from "./fold.ts";
import { logOf } from "./log/thread-log.ts";

/** How long a place is kept that one only passes by. */
const PASSING_MS = 40;

/** A thread as it was after an event. */
export interface Moment {
  readonly at: number;
  /** Those of the moment before, while this one is loading. */
  readonly messages: readonly AnyMessage[];
  readonly state: unknown;
  readonly isLoading: boolean;
  readonly error: unknown;
}

const NOTHING: Kept = { messages: [], state: undefined };

/** The thread as it was after the event with seq `at`; undefined where none is given, which is now. */
export function useMoment(threadId: string, at: number | undefined): Moment | undefined {
  const client = useThreadline();
  const log = useMemo(() => logOf(client, threadId), [client, threadId]);
  const { state, epoch, error } = useSyncExternalStore(at === undefined ? never : log.subscribe, log.getSnapshot);
  const { moments } = log;
  const [failed, setFailed] = useState<{ moments: unknown; at: number; error: unknown }>();
  const [, setCount] = useState(0);
  const known = at !== undefined && state === "ready" ? moments.peek(at) : undefined;
  const isKnown = known !== undefined;
  // Of this log alone: of one that was deleted nothing is shown any more, also if there is another under its name.
  const shown = useRef({ threadId, epoch, kept: NOTHING });
  if (known) shown.current = { threadId, epoch, kept: known };
  useEffect(() => {
    if (at === undefined || state !== "ready" || isKnown) return;
    const leave = new AbortController();
    const timer = setTimeout(() => {
      moments.load(at, leave.signal).then(
        () => leave.signal.aborted || setCount((count) => count + 1),
        (error: unknown) => leave.signal.aborted || setFailed({ moments, at, error }),
      );
    }, PASSING_MS);
    return () => {
      clearTimeout(timer);
      leave.abort();
    };
  }, [moments, epoch, at, state, isKnown]);
  const isSame = shown.current.threadId === threadId && shown.current.epoch === epoch;
  const before = isSame ? shown.current.kept : NOTHING;
  const isFailed = failed?.moments === moments && failed.at === at;
  const why = isKnown ? null : isFailed ? failed.error : state === "ready" || state === "loading" ? null : error;
  return useMemo(() => {
    if (at === undefined) return undefined;
    const kept = known ?? before;
    const { messages, state } = kept;
    return { at, messages, state, isLoading: !known && why === null, error: why };
  }, [at, known, before, why]);
}

function never(): () => void {
  return () => {};
}
