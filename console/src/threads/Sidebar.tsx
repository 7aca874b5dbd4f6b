import { Archive, Search, SquarePen } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import type { ThreadlineError } from "threadline";
import { Blank, Loading } from "../parts/Blank.tsx";
import { Button, IconButton } from "../parts/Button.tsx";
import { messageOf } from "../parts/failure.ts";
import { Logo } from "../parts/Logo.tsx";
import { useNotices } from "../parts/notices.tsx";
import { go, href } from "../route.ts";
import { useThreadActions } from "./actions.tsx";
import { Footer } from "./Footer.tsx";
import { useThreadList } from "./list.ts";
import { useShortcuts } from "./shortcuts.ts";
import { ThreadList } from "./ThreadList.tsx";

/** How long one stops typing before the server is asked. */
const TYPING_MS = 200;

/** The threads: search, the list, and the user. */
export function Sidebar({ selected }: { readonly selected: string | undefined }) {
  const [typed, setTyped] = useState("");
  const [withArchived, setWithArchived] = useState(false);
  const search = useSettled(typed, TYPING_MS);
  const list = useThreadList(search, withArchived);
  const [actions, dialogs] = useThreadActions();
  const { fail } = useNotices();
  const field = useRef<HTMLInputElement>(null);
  const newThread = useRef<HTMLAnchorElement>(null);
  useShortcuts({ "/": () => field.current?.focus(), n: () => go({ name: "new" }) });
  // Focus that was on the last thread moves to where another one begins: at once, or when the dialog that covers the page closes.
  const hadThreads = useRef(false);
  const wasEmptied = useRef(false);
  const hasThreads = list.threads.length > 0;
  useEffect(() => {
    wasEmptied.current = !hasThreads && (wasEmptied.current || hadThreads.current);
    hadThreads.current = hasThreads;
    if (!wasEmptied.current || document.querySelector("dialog[open]")) return;
    wasEmptied.current = false;
    if (document.activeElement === document.body) newThread.current?.focus();
  });
  return (
    <nav className="pane sidebar" aria-label="Threads">
      <header className="pane-header sidebar-header">
        <a className="home-link" href={href({ name: "home" })}>
          <Logo /> Threadline
        </a>
        <a
          ref={newThread}
          className="icon-button"
          href={href({ name: "new" })}
          aria-label="New thread"
          title="New thread (n)"
        >
          <SquarePen />
        </a>
      </header>
      <search className="thread-search">
        <Search aria-hidden="true" />
        <input
          ref={field}
          className="input"
          type="search"
          placeholder="Search by name"
          aria-label="Search threads"
          aria-keyshortcuts="/"
          maxLength={250}
          value={typed}
          onChange={(event) => setTyped(event.target.value)}
          onKeyDown={(event) => event.key === "Escape" && setTyped("")}
        />
        <IconButton
          label="Archived"
          title={withArchived ? "Archived threads are shown" : "Show archived threads"}
          aria-pressed={withArchived}
          onClick={() => setWithArchived(!withArchived)}
        >
          <Archive />
        </IconButton>
      </search>
      {list.isLoading ? (
        list.error ? (
          <Failed error={list.error} />
        ) : (
          <Loading what="threads" />
        )
      ) : list.threads.length > 0 || list.hasMoreThreads ? (
        <ThreadList
          threads={list.threads}
          selected={selected}
          actions={actions}
          hasMore={list.hasMoreThreads}
          isFetching={list.isFetchingMoreThreads}
          onMore={() => void list.fetchMoreThreads().catch(fail)}
        />
      ) : (
        <Nothing search={search} />
      )}
      <Footer />
      {dialogs}
    </nav>
  );
}

function Nothing({ search }: { readonly search: string }) {
  if (search)
    return (
      <Blank title="Nothing found">
        <p>No thread has “{search}” in its name.</p>
      </Blank>
    );
  return (
    <Blank title="No threads yet">
      <p>The built-in demo agent answers without any set-up.</p>
      <a className="button" href={href({ name: "new", agentId: "demo" })}>
        Try the demo agent
      </a>
    </Blank>
  );
}

function Failed({ error }: { readonly error: ThreadlineError }) {
  return (
    <Blank title="The list cannot be loaded">
      <p role="alert">{messageOf(error)}</p>
      {error.retryable ? <p>Retrying automatically.</p> : <Button onClick={() => location.reload()}>Try again</Button>}
    </Blank>
  );
}

/** A value as it is when it has not changed for so long. Empty is taken at once. */
function useSettled(value: string, ms: number): string {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), value ? ms : 0);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return settled;
}
