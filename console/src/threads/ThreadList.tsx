import { type KeyboardEvent, useEffect, useMemo, useRef, useState } from "react";
import type { Thread } from "threadline";
import { Virtualizer, type VirtualizerHandle } from "virtua";
import { useNow } from "../parts/Time.tsx";
import type { ThreadActions } from "./actions.tsx";
import { linesOf } from "./days.ts";
import { ThreadRow } from "./ThreadRow.tsx";

/** So many rows before the end the next ones are loaded. */
const AHEAD = 20;

/** The threads by day. Arrow keys, Home and End move between them; F2 renames, Delete deletes. */
export function ThreadList(props: {
  readonly threads: readonly Thread[];
  readonly selected: string | undefined;
  readonly actions: ThreadActions;
  readonly hasMore: boolean;
  readonly isFetching: boolean;
  readonly onMore: () => void;
}) {
  const { threads, selected, actions, hasMore, isFetching, onMore } = props;
  const today = new Date(useNow()).toDateString();
  const lines = useMemo(() => linesOf(threads, new Date(today).getTime()), [threads, today]);
  const scroller = useRef<HTMLDivElement>(null);
  const handle = useRef<VirtualizerHandle>(null);
  const [focused, setFocused] = useState<string | null>(null);
  const indexOf = (id: string | null) =>
    lines.findIndex((line) => line.kind === "thread" && line.thread.threadId === id);
  const kept = indexOf(focused);
  const place = useRef(0);
  useEffect(() => {
    if (kept >= 0) place.current = kept;
    // The one that had the focus is gone, and the question before that is answered: on to what has taken its place.
    const isLost = focused !== null && kept < 0 && document.activeElement === document.body;
    const next = isLost ? (lines[place.current] ?? lines.at(-1)) : undefined;
    if (next?.kind !== "thread") return;
    setFocused(next.thread.threadId);
    focusSoon(scroller.current, next.thread.threadId);
  });

  const more = () => {
    const { scrollOffset = 0, viewportSize = 0 } = handle.current ?? {};
    const shown = handle.current?.findItemIndex(scrollOffset + viewportSize) ?? 0;
    if (hasMore && !isFetching && shown >= lines.length - AHEAD) onMore();
  };
  // A page may be short, or none of it shown.
  useEffect(more);

  const move = (event: KeyboardEvent) => {
    const id = (event.target as HTMLElement).closest<HTMLElement>("[data-thread-id]")?.dataset.threadId;
    const at = id === undefined ? -1 : indexOf(id);
    const line = lines[at];
    if (line?.kind !== "thread") return;
    const to = nextIndex(event.key, at, lines.length);
    if (to !== undefined) {
      const [from, step] = to;
      for (let next = from; next >= 0 && next < lines.length; next += step) {
        const there = lines[next];
        if (there?.kind !== "thread") continue;
        setFocused(there.thread.threadId);
        // The first one's heading, too.
        handle.current?.scrollToIndex(next === 1 ? 0 : next, { align: "nearest" });
        focusSoon(scroller.current, there.thread.threadId);
        break;
      }
    } else if (event.key === "F2") actions.rename(line.thread);
    else if (event.key === "Delete") actions.remove(line.thread);
    else return;
    event.preventDefault();
  };

  return (
    <div
      ref={scroller}
      className="thread-scroller"
      onKeyDown={move}
      onFocus={({ target }) => setFocused(target.closest<HTMLElement>("[data-thread-id]")?.dataset.threadId ?? focused)}
    >
      <Virtualizer ref={handle} as="ul" item="li" data={lines} keepMounted={kept < 0 ? [] : [kept]} onScroll={more}>
        {(line) =>
          line.kind === "heading" ? (
            <h2 key={line.title} className="thread-day">
              {line.title}
            </h2>
          ) : (
            <ThreadRow
              key={line.thread.threadId}
              thread={line.thread}
              isSelected={line.thread.threadId === selected}
              actions={actions}
            />
          )
        }
      </Virtualizer>
      {isFetching && <div className="spinner centred" role="status" aria-label="Loading older threads" />}
    </div>
  );
}

/** Where a key leads, and in which direction to look on. */
function nextIndex(key: string, at: number, length: number): readonly [number, 1 | -1] | undefined {
  if (key === "ArrowDown") return [at + 1, 1];
  if (key === "ArrowUp") return [at - 1, -1];
  if (key === "Home") return [0, 1];
  if (key === "End") return [length - 1, -1];
  return undefined;
}

/** Rows that were out of sight can be focused when they have been measured, some frames later. */
function focusSoon(scroller: HTMLElement | null, threadId: string, tries = 30): void {
  const link = scroller?.querySelector<HTMLElement>(`[data-thread-id="${CSS.escape(threadId)}"]`);
  link?.focus({ preventScroll: true });
  const isDone = link !== undefined && link === document.activeElement;
  if (!isDone && tries > 0) requestAnimationFrame(() => focusSoon(scroller, threadId, tries - 1));
}
