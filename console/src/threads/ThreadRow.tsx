import { Archive, ListEnd, Pause } from "lucide-react";
import { memo } from "react";
import { isUnread, type Thread } from "threadline";
import { Menu } from "../parts/Menu.tsx";
import { Time } from "../parts/Time.tsx";
import { href } from "../route.ts";
import type { ThreadActions } from "./actions.tsx";
import { lastActive } from "./days.ts";
import { nameOf } from "./name.ts";

/** A thread in the list. */
export const ThreadRow = memo(function ThreadRow(props: {
  readonly thread: Thread;
  readonly isSelected: boolean;
  readonly actions: ThreadActions;
}) {
  const { thread, isSelected, actions } = props;
  const { threadId, name, agentId, activeRun, archived, queued, held } = thread;
  // What is being looked at is seen.
  const isNew = isUnread(thread) && !isSelected;
  const shown = nameOf(thread);
  const className = ["thread-row", isSelected && "selected", isNew && "unread"].filter(Boolean).join(" ");
  return (
    <div className={className}>
      <a
        className="thread-link"
        href={href({ name: "thread", threadId })}
        aria-current={isSelected ? "page" : undefined}
        aria-keyshortcuts="F2 Delete"
        data-thread-id={threadId}
      >
        <span className={name ? "thread-name" : "thread-name nameless"} dir="auto" title={shown}>
          {shown}
        </span>
        <span className="thread-facts">
          {isNew && <span className="unread-dot" role="img" aria-label="Unread" />}
          {activeRun && <Running />}
          {queued > 0 && <Queued count={queued} isHeld={held !== null} />}
          {archived && <Archive role="img" aria-label="Archived" />}
          {agentId && <span className="thread-agent">{agentId}</span>}
          <Time at={lastActive(thread)} />
        </span>
      </a>
      <Menu label={`Options of ${shown}`} items={actions.items(thread)} />
    </div>
  );
});

/** A run is under way. */
export function Running() {
  return (
    <span className="running-dots" role="img" aria-label="Running">
      <i />
      <i />
      <i />
    </span>
  );
}

/** Number of messages that wait in a thread. */
function Queued({ count, isHeld }: { readonly count: number; readonly isHeld: boolean }) {
  const label = `${count} waiting${isHeld ? ", held" : ""}`;
  return (
    <span className="thread-queued" role="img" aria-label={label} title={label}>
      {isHeld ? <Pause aria-hidden="true" /> : <ListEnd aria-hidden="true" />}
      {count}
    </span>
  );
}
