import { useEffect, useRef, useState } from "react";

/**
 * Asks again and again, `ms` after each answer, while the page is in sight: the last answer, and why the last question failed. What
 * belongs to another key is forgotten.
 */
export function usePolled<T>(
  key: string,
  ms: number,
  ask: (signal: AbortSignal) => Promise<T>,
): readonly [T | undefined, unknown] {
  const [known, setKnown] = useState<{
    readonly key: string;
    readonly answer: T | undefined;
    readonly error: unknown;
  }>();
  const latest = useRef(ask);
  latest.current = ask;
  useEffect(() => {
    const leave = new AbortController();
    const { signal } = leave;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isAsking = false;
    const poll = async () => {
      clearTimeout(timer);
      if (isAsking || document.hidden) return;
      isAsking = true;
      try {
        const answer = await latest.current(signal);
        if (!signal.aborted) setKnown({ key, answer, error: null });
      } catch (error) {
        if (!signal.aborted)
          setKnown((before) => ({ key, answer: before?.key === key ? before.answer : undefined, error }));
      }
      isAsking = false;
      if (!signal.aborted) timer = setTimeout(() => void poll(), ms);
    };
    const seen = () => void poll();
    document.addEventListener("visibilitychange", seen);
    void poll();
    return () => {
      leave.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", seen);
    };
  }, [key, ms]);
  return known?.key === key ? [known.answer, known.error] : [undefined, null];
}
