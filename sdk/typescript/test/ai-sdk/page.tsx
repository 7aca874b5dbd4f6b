// A page with one chat, whose address has its id. The test bundles it with each version of the AI SDK.

import { useChat } from "@ai-sdk/react";
import { type FormEvent, StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { type ChatMessages, ThreadlineChatTransport, toUIMessages } from "../../src/ai-sdk/index.js";
import { Threadline } from "../../src/index.js";
import { textOf } from "./text.js";

const query = new URLSearchParams(location.search);
const client = new Threadline({ url: query.get("server")! });
const id = query.get("chat")!;
const transport = new ThreadlineChatTransport({ client, agentId: "scripted" });

function Chat({ loaded }: { loaded: ChatMessages }) {
  const chat = useChat({ id, messages: loaded.messages, transport, resume: true });
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const text = String(new FormData(event.currentTarget).get("text"));
    const edited = (event.nativeEvent as SubmitEvent).submitter?.dataset["edits"] && chat.messages[0]?.id;
    void chat.sendMessage(edited ? { text, messageId: edited } : { text });
    event.currentTarget.reset();
  };
  return (
    <main data-status={chat.status}>
      <ol>
        {chat.messages.map((message) => (
          <li key={message.id}>{`${message.role}: ${textOf(message)}`}</li>
        ))}
      </ol>
      {chat.error && <p role="alert">{`${chat.error.name}: ${chat.error.message}`}</p>}
      <form onSubmit={submit}>
        <input name="text" aria-label="Message" />
        <button>Send</button>
        <button data-edits="first">Edit</button>
      </form>
      <button onClick={() => void transport.stop(id)}>Stop</button>
      <button onClick={() => void chat.regenerate()}>Again</button>
    </main>
  );
}

const loaded = await toUIMessages(client, "scripted", id);
createRoot(document.body).render(
  <StrictMode>
    <Chat loaded={loaded} />
  </StrictMode>,
);
