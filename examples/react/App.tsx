import { useSyncExternalStore } from "react";
import { type Thread, useThreads } from "threadline/react";
import { Chat } from "./Chat.tsx";

export function App() {
  const threadId = useHash();
  return (
    <>
      <Sidebar current={threadId} />
      {threadId ? <Chat threadId={threadId} /> : <main className="empty">Choose a thread, or begin a new one.</main>}
    </>
  );
}

function Sidebar({ current }: { current: string }) {
  const list = useThreads({ limit: 20 });
  return (
    <nav aria-label="Threads">
      <button className="new" onClick={() => (location.hash = crypto.randomUUID())}>
        New thread
      </button>
      <ul>
        {list.threads.map((thread) => (
          <Row key={thread.threadId} thread={thread} isCurrent={thread.threadId === current} list={list} />
        ))}
      </ul>
      {list.hasMoreThreads && <button onClick={list.fetchMoreThreads}>Older threads</button>}
      {list.error && <p role="alert">{list.error.message}</p>}
    </nav>
  );
}

function Row({ thread, isCurrent, list }: { thread: Thread; isCurrent: boolean; list: ReturnType<typeof useThreads> }) {
  const { threadId, activeRun } = thread;
  const name = thread.name ?? new Date(thread.createdAt).toLocaleString();
  // The list shows errors.
  const quietly = (change: Promise<unknown>) => void change.catch(() => {});
  const rename = () => {
    const next = prompt("Name of the thread", name);
    if (next !== null) quietly(list.renameThread(threadId, next || null));
  };
  const remove = () => confirm(`Delete “${name}” permanently?`) && quietly(list.deleteThread(threadId));
  return (
    <li className={activeRun ? "running" : ""}>
      <a href={`#${threadId}`} aria-current={isCurrent ? "page" : undefined}>
        {name}
      </a>
      <button aria-label={`Rename ${name}`} onClick={rename}>
        ✎
      </button>
      <button aria-label={`Archive ${name}`} onClick={() => quietly(list.archiveThread(threadId))}>
        ↓
      </button>
      <button aria-label={`Delete ${name}`} onClick={remove}>
        ×
      </button>
    </li>
  );
}

/** The address contains the thread, so that a reload or a link opens it again. */
function useHash(): string {
  const subscribe = (listener: () => void) => {
    addEventListener("hashchange", listener);
    return () => removeEventListener("hashchange", listener);
  };
  return useSyncExternalStore(subscribe, () => location.hash.slice(1));
}
