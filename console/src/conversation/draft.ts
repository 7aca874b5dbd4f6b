import { useCallback, useState } from "react";
import { DRAFTS } from "../session.ts";

/** What is being written in a thread, and not sent yet: kept in this tab, also over a reload. */
export function useDraft(threadId: string): readonly [string, (text: string) => void] {
  const key = `${DRAFTS}${threadId}`;
  const [kept, setKept] = useState(() => ({ key, text: sessionStorage.getItem(key) ?? "" }));
  const text = kept.key === key ? kept.text : (sessionStorage.getItem(key) ?? "");
  const write = useCallback(
    (text: string) => {
      setKept({ key, text });
      try {
        if (text) sessionStorage.setItem(key, text);
        else sessionStorage.removeItem(key);
      } catch {
        // The browser has no room for it: it is kept as long as the page is.
      }
    },
    [key],
  );
  return [text, write];
}
