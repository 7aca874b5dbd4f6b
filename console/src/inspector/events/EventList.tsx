import { ArrowDownToLine } from "lucide-react";
import {
  type CSSProperties,
  type KeyboardEvent,
  useEffect,
  useId,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from "react";
import { VList, type VListHandle } from "virtua";
import { Button } from "../../parts/Button.tsx";
import type { ThreadLog } from "../log/thread-log.ts";
import { EventRow } from "./EventRow.tsx";
import type { Times } from "./times.ts";

export const ROW_PX = 26;

/** Events, a row each: row `i` is the event with seq `i + 1`, or `seqs[i]` where some are left out. Only rows in sight are there. */
export function EventList(props: {
  readonly log: ThreadLog;
  readonly count: number;
  readonly seqs: readonly number[] | undefined;
  /** What is left out is known. */
  readonly isComplete: boolean;
  readonly at: number | undefined;
  readonly opened: number | undefined;
  readonly times: Times;
  readonly onOpen: (seq: number) => void;
}) {
  const { log, count, seqs, isComplete, at, opened, times, onOpen } = props;
  const id = useId();
  const box = useRef<HTMLDivElement>(null);
  const list = useRef<VListHandle>(null);
  const before = useRef(0);
  const seqOf = (row: number) => seqs?.[row] ?? row + 1;
  const rowOf = (seq: number) => (seqs ? nearest(seqs, count, seq) : Math.min(Math.max(seq - 1, 0), count - 1));
  const [active, setActive] = useState<number | undefined>(opened);
  const [isAtEnd, setAtEnd] = useState(at === undefined && opened === undefined);
  const activeRow = active === undefined || count === 0 ? undefined : rowOf(active);
  const data = useMemo(() => ({ length: count }), [count]);

  /** Brings a row into sight, if it is not. All rows are of one height: nothing has to be measured, and corrected later. */
  const reveal = (row: number, align: "nearest" | "center" = "nearest") => {
    const element = viewport(box.current);
    if (element) element.scrollTop = offsetFor(row, element, align);
  };
  // New events: a list at its end stays at its end.
  useLayoutEffect(() => {
    if (isAtEnd && count > 0) reveal(count - 1);
  }, [count, isAtEnd]);
  // An event chosen elsewhere: on the timeline, or by a link.
  useLayoutEffect(() => {
    if (opened === undefined) return;
    setActive(opened);
    setAtEnd(false);
    if (count > 0) reveal(rowOf(opened));
  }, [opened]);
  useEffect(() => {
    if (at === undefined || count === 0) return;
    setAtEnd(false);
    reveal(rowOf(at), isInSight(viewport(box.current), rowOf(at)) ? "nearest" : "center");
  }, [at, isComplete]);

  // The open event was closed: focus moves from it to the list.
  const last = useRef(opened);
  useEffect(() => {
    const isClosed = last.current !== undefined && opened === undefined;
    last.current = opened;
    if (isClosed && document.activeElement === document.body) {
      viewport(box.current)?.focus({ preventScroll: true });
    }
  }, [opened]);

  const go = (row: number) => {
    const to = Math.min(Math.max(row, 0), count - 1);
    setActive(seqOf(to));
    setAtEnd(to === count - 1);
    reveal(to);
  };
  const keyed = (event: KeyboardEvent) => {
    const { scrollOffset = 0, viewportSize = 0 } = list.current ?? {};
    const row = activeRow ?? Math.floor(scrollOffset / ROW_PX);
    const page = Math.max(1, Math.floor(viewportSize / ROW_PX) - 1);
    const isNew = activeRow === undefined;
    const to = {
      ArrowDown: isNew ? row : row + 1,
      ArrowUp: isNew ? row : row - 1,
      PageDown: row + page,
      PageUp: row - page,
      Home: 0,
      End: count - 1,
    }[event.key];
    const isChosen = event.key === "Enter" || event.key === " ";
    if (to === undefined && !isChosen) return;
    event.preventDefault();
    if (to !== undefined) go(to);
    else if (active !== undefined) onOpen(active);
  };
  const scrolled = (offset: number) => {
    const { scrollSize = 0, viewportSize = 0 } = list.current ?? {};
    const isUpwards = offset < before.current;
    before.current = offset;
    const isEnd = offset + viewportSize >= scrollSize - ROW_PX;
    // Only scrolling up leaves the end; new rows move the end away as well.
    if (isUpwards) setAtEnd(false);
    else if (isEnd) setAtEnd(true);
  };
  return (
    <div ref={box} className="event-list">
      <VList
        ref={list}
        role="listbox"
        style={{ "--seq": `${String(log.pages.tail).length}ch` } as CSSProperties}
        tabIndex={0}
        aria-label="Events"
        aria-activedescendant={activeRow === undefined ? undefined : `${id}-${activeRow}`}
        data={data}
        itemSize={ROW_PX}
        keepMounted={activeRow === undefined ? [] : [activeRow]}
        onScroll={scrolled}
        // Before the next rows scroll the list back to its end.
        onWheel={({ deltaY }) => deltaY < 0 && setAtEnd(false)}
        onKeyDown={keyed}
      >
        {(_, row) => {
          const seq = seqOf(row);
          return (
            <EventRow
              key={row}
              id={`${id}-${row}`}
              log={log}
              seq={seq}
              place={row + 1}
              count={count}
              times={times}
              isActive={seq === active}
              isOpen={seq === opened}
              isLater={at !== undefined && seq > at}
              isAt={seq === at}
              onOpen={onOpen}
            />
          );
        }}
      </VList>
      {!isAtEnd && count * ROW_PX > (list.current?.viewportSize ?? 0) && (
        <Button className="to-end" onClick={() => (setAtEnd(true), setActive(undefined))}>
          <ArrowDownToLine aria-hidden="true" />
          Newest
        </Button>
      )}
    </div>
  );
}

/** What scrolls. */
function viewport(box: HTMLElement | null): HTMLElement | null {
  return box?.querySelector<HTMLElement>("[role=listbox]") ?? null;
}

function isInSight(element: HTMLElement | null, row: number): boolean {
  return element !== null && offsetFor(row, element, "nearest") === element.scrollTop;
}

/** Where it has to be scrolled to for a row to be seen whole. */
function offsetFor(row: number, element: HTMLElement, align: "nearest" | "center"): number {
  const { scrollTop, clientHeight } = element;
  const top = row * ROW_PX;
  if (align === "center") return Math.max(0, top - (clientHeight - ROW_PX) / 2);
  return Math.min(Math.max(scrollTop, top + ROW_PX - clientHeight), top);
}

/** The row of a seq among those that are shown; where it is not among them, the one before it. */
export function nearest(seqs: readonly number[], count: number, seq: number): number {
  let [low, high] = [0, count - 1];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (seqs[middle]! <= seq) low = middle;
    else high = middle - 1;
  }
  return low;
}
