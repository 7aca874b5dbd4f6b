import { useChat } from "@ai-sdk/react";
import type { UIMessage } from "ai";
import type { FormEvent } from "react";
import type { ThreadlineChatTransport } from "threadline/ai-sdk";

type Props = { id: string; messages: UIMessage[]; transport: ThreadlineChatTransport };

export function Chat({ id, messages: loaded, transport }: Props) {
  const { messages, status, error, sendMessage, regenerate } = useChat({ id, messages: loaded, transport, resume: true });
  const isRunning = status === "submitted" || status === "streaming";
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    if (isRunning) return;
    void sendMessage({ text: String(new FormData(event.currentTarget).get("text")) });
    event.currentTarget.reset();
  };
  return (
    <main>
      <a href="#">New chat</a>
      <ol aria-live="polite">
        {messages.map(({ id, role, parts }) => (
          <li key={id} className={role}>
            {parts.map((part, at) => (part.type === "text" ? <p key={at}>{part.text}</p> : null))}
          </li>
        ))}
      </ol>
      {error && <p role="alert">{error.message}</p>}
      <form onSubmit={submit}>
        <input name="text" aria-label="Message" placeholder="Say something" required autoComplete="off" autoFocus />
        {isRunning ? <button type="button" onClick={() => transport.stop(id)}>Stop</button> : <button>Send</button>}
        {!isRunning && messages.length > 0 && <button type="button" onClick={() => regenerate()}>Answer again</button>}
      </form>
    </main>
  );
}
