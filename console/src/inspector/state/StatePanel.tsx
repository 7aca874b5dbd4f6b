import { Braces, CircleAlert } from "lucide-react";
import { useMemo } from "react";
import { useThread } from "threadline/react";
import { Blank, Loading } from "../../parts/Blank.tsx";
import { Button } from "../../parts/Button.tsx";
import { copyText } from "../../parts/copy.ts";
import { messageOf } from "../../parts/failure.ts";
import { useNotices } from "../../parts/notices.tsx";
import { line } from "../events/preview.ts";
import { JsonTree } from "../json/JsonTree.tsx";
import type { ThreadLog } from "../log/thread-log.ts";
import { useEvent } from "../log/use-log.ts";
import { useMoment } from "../moment.ts";
import { move, type Place } from "../place.ts";
import { count } from "../time.ts";
import { type Change, changes, MOST_CHANGES } from "./diff.ts";

/** The state of a thread, now or after an event; and what that event has changed of it. */
export function StatePanel(props: { readonly place: Place; readonly log: ThreadLog; readonly tail: number }) {
  const { place, log, tail } = props;
  const { threadId, at } = place;
  const live = useThread(threadId);
  const moment = useMoment(threadId, at);
  const { tell, fail } = useNotices();
  const shown = moment ?? { state: live.state, isLoading: live.isLoading, error: null };
  if (shown.error) {
    return (
      <Blank icon={<CircleAlert />} title="The state cannot be read">
        <p role="alert">{messageOf(shown.error)}</p>
        <Button onClick={() => move(place, { at: undefined }, { replace: true })}>Show the current state</Button>
      </Blank>
    );
  }
  if (shown.state === undefined) return <Loading what="the state" />;
  const copy = () => copyText(JSON.stringify(shown.state, null, 2)).then(() => tell("Copied: the state"), fail);
  return (
    <div className="state-panel" aria-busy={shown.isLoading}>
      <header className="panel-line">
        <h2>
          {at === undefined ? "State now" : `State after event ${count(at)}`}
          {shown.isLoading && <span className="spinner" aria-hidden="true" />}
        </h2>
        <Button onClick={() => void copy()}>
          <Braces aria-hidden="true" />
          Copy state
        </Button>
      </header>
      {at !== undefined && at <= tail && <Changes place={place} log={log} at={at} />}
      {isEmpty(shown.state) ? (
        <Blank
          title="The state is empty"
          children={<p>No event has set any {at === undefined ? "yet" : "by then"}.</p>}
        />
      ) : (
        <JsonTree value={shown.state} label="State" />
      )}
    </div>
  );
}

/** What an event has changed of the state. */
function Changes({ place, log, at }: { readonly place: Place; readonly log: ThreadLog; readonly at: number }) {
  const { threadId } = place;
  const after = useMoment(threadId, at);
  const before = useMoment(threadId, at - 1);
  const logged = useEvent(log, at);
  const isThere = after && before && !after.isLoading && !before.isLoading;
  const all = useMemo(() => (isThere ? changes(before.state, after.state) : undefined), [isThere, before, after]);
  return (
    <section className="changes" aria-label="Changes">
      <h3>
        What event {count(at)} {logged && <code>{line(String(logged.event.type))}</code>} changed
      </h3>
      {!all ? (
        <p>…</p>
      ) : all.length === 0 ? (
        <p>The event does not change the state.</p>
      ) : (
        <ul tabIndex={0} aria-label="Changes of the state">
          {all.slice(0, MOST_CHANGES).map((change) => (
            <ChangeLine key={change.kind + change.path} change={change} />
          ))}
          {all.length > MOST_CHANGES && <li>… and more</li>}
        </ul>
      )}
    </section>
  );
}

function ChangeLine({ change: { kind, path, before, after } }: { readonly change: Change }) {
  return (
    <li className={`change ${kind}`}>
      <span className="change-kind">{kind}</span>
      <code className="token-key">{path === "" ? "all of it" : path}</code>
      {kind !== "added" && <del>{short(before)}</del>}
      {kind !== "removed" && <ins>{short(after)}</ins>}
    </li>
  );
}

function short(value: unknown): string {
  return line(JSON.stringify(value) ?? "");
}

function isEmpty(state: unknown): boolean {
  return state === null || (typeof state === "object" && Object.keys(state).length === 0);
}
