// One thread, open in six clients on this page, and in the console on another.

import { CopilotChat, CopilotKitProvider } from "@copilotkit/react-core/v2";
import "@copilotkit/react-core/v2/styles.css";
import "./style.css";
import { createRoot } from "react-dom/client";
import { AgUi } from "./AgUi.tsx";
import { AiSdk } from "./AiSdk.tsx";
import { LangGraph } from "./LangGraph.tsx";
import { OpenAi } from "./OpenAi.tsx";
import { Panel } from "./Panel.tsx";
import { useThread } from "./thread.ts";

const { server, agentId } = JSON.parse(document.querySelector("#settings")!.textContent!) as Record<
  "server" | "agentId",
  string
>;
// A browser opens six connections to a host over HTTP/1.1, and streams hold most of them here: half of the clients use the server's other
// name. Behind TLS, HTTP/2 has no such limit.
const alias = server.replace("127.0.0.1", "localhost");

// The address contains the thread, so that a reload or a link opens it again.
if (!location.hash) history.replaceState(null, "", `#${crypto.randomUUID()}`);
addEventListener("hashchange", () => location.reload());
const threadId = location.hash.slice(1);

function App() {
  const { lines, activity, error } = useThread(server, threadId);
  const props = { threadId, agentId, activity };
  return (
    <>
      <header>
        One thread, at once in all clients below and in{" "}
        <a href={`${server}/#/threads/${encodeURIComponent(threadId)}`} target="_blank" rel="noreferrer">
          the console
        </a>
        . <a href="#">New thread</a>
      </header>
      <main>
        <section aria-label="CopilotKit" className="copilotkit">
          <h2>CopilotKit</h2>
          <CopilotKitProvider runtimeUrl={`${server}/copilotkit`}>
            <CopilotChat agentId={agentId} threadId={threadId} />
          </CopilotKitProvider>
        </section>
        <AgUi server={alias} {...props} />
        <AiSdk server={alias} {...props} />
        <OpenAi server={alias} {...props} />
        <LangGraph server={server} {...props} />
        <Panel name="Durable Streams" lines={lines} error={error} />
      </main>
    </>
  );
}

const root = createRoot(document.querySelector("#app")!);
const create = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ threadId }) };
try {
  const created = await fetch(`${server}/v1/threads`, create);
  if (!created.ok) throw new Error(await created.text());
  root.render(<App />);
} catch (error) {
  root.render(<p role="alert">{String(error)}</p>);
}
