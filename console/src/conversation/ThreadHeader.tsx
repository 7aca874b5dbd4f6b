import { ArrowLeft, PanelRight } from "lucide-react";
import type { Thread } from "threadline";
import { INSPECTOR_BUTTON } from "../inspector/place.ts";
import { IconButton } from "../parts/Button.tsx";
import { Menu } from "../parts/Menu.tsx";
import { useMayWrite } from "../rights.ts";
import { href } from "../route.ts";
import type { ThreadActions } from "../threads/actions.tsx";
import { nameOf } from "../threads/name.ts";
import { RunningFor } from "./RunStatus.tsx";

/** The thread's name, its agent, and its actions. */
export function ThreadHeader(props: {
  readonly thread: Thread | null;
  readonly agentId: string | undefined;
  readonly running: "running" | "stopping" | undefined;
  readonly actions: ThreadActions;
  readonly isInspecting: boolean;
  readonly onInspect: () => void;
}) {
  const { thread, agentId, running, actions, isInspecting, onInspect } = props;
  const mayWrite = useMayWrite();
  return (
    <header className="pane-header">
      <a className="icon-button only-narrow" href={href({ name: "home" })} aria-label="Back to the threads">
        <ArrowLeft />
      </a>
      <div className="pane-title">
        {thread && (
          <h1>
            <button
              type="button"
              title={mayWrite ? `${nameOf(thread)} (F2 renames)` : nameOf(thread)}
              onClick={() => actions.rename(thread)}
              dir="auto"
            >
              {nameOf(thread)}
            </button>
          </h1>
        )}
        {thread && (
          <p className="thread-subtitle">
            {thread.archived && <span>Archived</span>}
            {agentId && <span className="thread-agent">{agentId}</span>}
            {running && <RunningFor since={thread.activeRun?.startedAt} isStopping={running === "stopping"} />}
          </p>
        )}
      </div>
      <IconButton
        id={INSPECTOR_BUTTON}
        label="Inspector"
        title={isInspecting ? "Hide the inspector (i)" : "Show the inspector (i)"}
        aria-pressed={isInspecting}
        aria-keyshortcuts="i"
        onClick={onInspect}
      >
        <PanelRight />
      </IconButton>
      {thread && <Menu label="Options of this thread" items={actions.items(thread, { withLink: true })} />}
    </header>
  );
}
