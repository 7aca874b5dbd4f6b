import { CircleAlert, Radio, Trash2, X } from "lucide-react";
import { type ReactNode, useEffect, useLayoutEffect, useRef } from "react";
import { useThread } from "threadline/react";
import { Blank, Loading } from "../parts/Blank.tsx";
import { Boundary } from "../parts/Boundary.tsx";
import { Button, IconButton } from "../parts/Button.tsx";
import { messageOf } from "../parts/failure.ts";
import type { Panel } from "../route.ts";
import { CurlMenu } from "./CurlMenu.tsx";
import { EventsPanel } from "./events/EventsPanel.tsx";
import { LivePanel } from "./live/LivePanel.tsx";
import type { LogSnapshot, ThreadLog } from "./log/thread-log.ts";
import { useLog } from "./log/use-log.ts";
import { leave, move, type Place } from "./place.ts";
import { ResizeHandle } from "./ResizeHandle.tsx";
import { RunsPanel } from "./runs/RunsPanel.tsx";
import { Scrubber } from "./Scrubber.tsx";
import { StatePanel } from "./state/StatePanel.tsx";
import { Tabs } from "./Tabs.tsx";

/** The data of a conversation: raw events, state, runs, subscriptions. */
export function Inspector(place: {
  readonly threadId: string;
  readonly panel: Panel;
  readonly at: number | undefined;
  readonly event: number | undefined;
}) {
  const { threadId, panel } = place;
  const pane = useRef<HTMLElement>(null);
  const [log, snapshot] = useLog(threadId);
  const { thread } = useThread(threadId);
  useChanges(log, snapshot, thread);
  useEscape(pane, place);
  useEffect(() => {
    // It covers what has the focus.
    if (matchMedia("(max-width: 720px)").matches)
      pane.current?.querySelector<HTMLElement>("[aria-selected=true]")?.focus();
  }, []);
  useLayoutEffect(() => {
    const shown = pane.current;
    const opener = document.activeElement;
    return () => {
      // What had the focus goes away with it: back to where it was opened, if that is still there.
      if (!shown?.contains(document.activeElement)) return;
      const isThere = opener instanceof HTMLElement && opener !== document.body && opener.isConnected;
      (isThere ? opener : document.getElementById("main"))?.focus();
    };
  }, []);
  return (
    <aside ref={pane} className="pane inspector" aria-label="Inspector">
      <ResizeHandle />
      <header className="pane-header inspector-header">
        <Tabs panel={panel} onSelect={(panel) => move(place, { panel }, { replace: true })} />
        <CurlMenu place={place} log={log} snapshot={snapshot} />
        <IconButton label="Close the inspector" onClick={() => leave(place)}>
          <X />
        </IconButton>
      </header>
      <Boundary key={panel} what="This part of the inspector">
        {snapshot.state === "ready" && <Scrubber place={place} log={log} tail={snapshot.tail} />}
        {snapshot.replaced > 0 && (
          <p className="inspector-note" role="status">
            The log was replaced by another one.
          </p>
        )}
        <div
          role="tabpanel"
          id="inspector-panel"
          aria-labelledby={`inspector-tab-${panel}`}
          className="inspector-panel"
        >
          <Shown log={log} snapshot={snapshot}>
            {panel === "events" && <EventsPanel key={snapshot.epoch} place={place} log={log} snapshot={snapshot} />}
            {panel === "state" && <StatePanel place={place} log={log} tail={snapshot.tail} />}
            {panel === "runs" && <RunsPanel place={place} log={log} tail={snapshot.tail} />}
            {panel === "live" && <LivePanel threadId={threadId} log={log} />}
          </Shown>
        </div>
      </Boundary>
    </aside>
  );
}

/** A page of the inspector, or why there is none. */
function Shown(props: { readonly log: ThreadLog; readonly snapshot: LogSnapshot; readonly children: ReactNode }) {
  const { log, snapshot, children } = props;
  switch (snapshot.state) {
    case "ready":
      return (
        <>
          {snapshot.error !== null && (
            <p className="inspector-note failed" role="alert">
              <span>Some events could not be read. {messageOf(snapshot.error)}</span>
              <Button onClick={log.retry}>Try again</Button>
            </p>
          )}
          {children}
        </>
      );
    case "loading":
      return <Loading what="the log" />;
    case "missing":
      return <Blank icon={<Radio />} title="Nothing to inspect yet" children={<p>This thread has no log so far.</p>} />;
    case "deleted":
      return (
        <Blank icon={<Trash2 />} title="Deleted" children={<p>The thread and its log were deleted permanently.</p>} />
      );
    case "failed":
      return (
        <Blank icon={<CircleAlert />} title="The log cannot be read">
          <p role="alert">{messageOf(snapshot.error)}</p>
          <Button onClick={log.again}>Try again</Button>
        </Blank>
      );
  }
}

/** Looks again when the feed tells of what the log does not: a thread that is made, a run that ends without a word. */
function useChanges(log: ThreadLog, { state, epoch }: LogSnapshot, thread: ReturnType<typeof useThread>["thread"]) {
  const made = thread !== null && thread.epoch !== epoch && (state === "missing" || state === "deleted");
  useEffect(() => {
    if (made) log.again();
  }, [log, made]);
  const { activeRun, lastRunAt } = thread ?? {};
  const runs = [lastRunAt, activeRun?.runId, activeRun?.status, activeRun?.stopRequested].join(" ");
  useEffect(() => {
    if (state === "ready") void log.runs.refresh();
  }, [log, state, runs]);
}

/** Escape closes what is open: an event first, then the inspector; not while something else is. */
function useEscape(pane: { readonly current: HTMLElement | null }, place: Place) {
  const here = useRef(place);
  here.current = place;
  useEffect(() => {
    const keyed = (event: KeyboardEvent) => {
      if (event.key !== "Escape" || event.defaultPrevented) return;
      if (document.querySelector("dialog[open], :popover-open")) return;
      const { target } = event;
      const isHere = target === document.body || (target instanceof Node && pane.current?.contains(target));
      if (!isHere) return;
      // A field is emptied first.
      if (target instanceof HTMLInputElement && target.type === "search" && target.value !== "") return;
      event.preventDefault();
      const { event: open } = here.current;
      if (open !== undefined) move(here.current, { event: undefined }, { replace: true });
      else leave(here.current);
    };
    addEventListener("keydown", keyed);
    return () => removeEventListener("keydown", keyed);
  }, [pane]);
}
