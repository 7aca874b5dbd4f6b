import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Threadline } from "threadline";
import { ThreadlineChatTransport, toUIMessages } from "threadline/ai-sdk";
import { Chat } from "./Chat.tsx";

// A public page uses a token: https://threads.example.com, token: () => fetchToken()
const url = new URLSearchParams(location.search).get("server") ?? "http://localhost:7420";
const client = new Threadline({ url });
const transport = new ThreadlineChatTransport({ client, agentId: "demo" });

// The address contains the chat, so that a reload or a link opens it again.
if (!location.hash) history.replaceState(null, "", `#${crypto.randomUUID()}`);
addEventListener("hashchange", () => location.reload());
const id = location.hash.slice(1);

const root = createRoot(document.body);
try {
  const { messages } = await toUIMessages(client, "demo", id);
  root.render(
    <StrictMode>
      <Chat id={id} messages={messages} transport={transport} />
    </StrictMode>,
  );
} catch (error) {
  root.render(<p role="alert">{String(error)}</p>);
}
