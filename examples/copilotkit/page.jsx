// A chat with a list of its threads, with CopilotKit's own components and hooks only.

import { CopilotChat, CopilotKitProvider, useThreads } from "@copilotkit/react-core/v2";
import "@copilotkit/react-core/v2/styles.css";
import { useEffect, useState } from "react";
import { createRoot } from "react-dom/client";

// Settings from `start.mjs`: the address of the runtime, the agent, and the headers that identify the user.
const { runtimeUrl, agentId, headers } = JSON.parse(document.querySelector("#settings").textContent);

function Threads({ current, open }) {
  const list = useThreads({ agentId, limit: 30 });
  const rename = (thread) => {
    const name = prompt("A name for this thread", thread.name ?? "");
    if (name) list.renameThread(thread.id, name);
  };
  return (
    <nav>
      <button onClick={() => open(crypto.randomUUID())}>New chat</button>
      {list.error && <p role="alert">{list.error.message}</p>}
      <ul>
        {list.threads.map((thread) => (
          <li key={thread.id} aria-current={thread.id === current} data-thread={thread.id}>
            <a onClick={() => open(thread.id)}>{thread.name ?? `Chat of ${thread.createdAt.slice(0, 10)}`}</a>
            <button onClick={() => rename(thread)}>Rename</button>
            <button onClick={() => list.archiveThread(thread.id)}>Archive</button>
            <button onClick={() => list.deleteThread(thread.id)}>Delete</button>
          </li>
        ))}
      </ul>
      {list.hasMoreThreads && <button onClick={list.fetchMoreThreads}>More</button>}
    </nav>
  );
}

function App() {
  // The address contains the thread: a reload, a bookmark and a second tab show the same one.
  const [threadId, open] = useState(() => location.hash.slice(1) || crypto.randomUUID());
  useEffect(() => {
    location.hash = threadId;
    const changed = () => open(location.hash.slice(1));
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, [threadId]);
  return (
    <CopilotKitProvider runtimeUrl={runtimeUrl} headers={headers}>
      <Threads current={threadId} open={open} />
      <main>
        <CopilotChat agentId={agentId} threadId={threadId} />
      </main>
    </CopilotKitProvider>
  );
}

createRoot(document.querySelector("#app")).render(<App />);
