import { useEffect, useMemo, useRef } from "react";
import type { Threadline } from "threadline";
import { useThreadline, useThreads, type UseThreads } from "threadline/react";

const PAGE = 60;

/** The threads that the sidebar shows. Until the first ones of another search are here it shows those of the one before. */
export function useThreadList(search: string, includeArchived: boolean): UseThreads {
  const client = useThreadline();
  const list = useThreads({ includeArchived, limit: PAGE, ...(search.trim() && { search }) });
  const before = useRef<{ client: Threadline; threads: UseThreads["threads"] }>(undefined);
  useEffect(() => {
    if (!list.isLoading) before.current = { client, threads: list.threads };
  });
  return useMemo(() => {
    const isAsking = list.isLoading && !list.error && before.current?.client === client;
    return isAsking
      ? { ...list, threads: before.current?.threads ?? [], isLoading: false, hasMoreThreads: true }
      : list;
  }, [client, list]);
}
