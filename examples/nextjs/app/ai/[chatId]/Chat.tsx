"use client";

import { useChat } from "@ai-sdk/react";
import type { UIMessage } from "ai";
import { type FormEvent, useState } from "react";
import { ThreadlineChatTransport } from "threadline/ai-sdk";
import { clientAt } from "../../../lib/browser";

export function Chat({ url, chatId, messages: loaded }: { url: string; chatId: string; messages: UIMessage[] }) {
  const [transport] = useState(() => new ThreadlineChatTransport({ client: clientAt(url), agentId: "demo" }));
  // `loaded` is in the HTML already. `resume` follows an answer that is under way; without one, it is one request with an empty response.
  const { messages, status, error, sendMessage, regenerate, resumeStream } = useChat({ id: chatId, messages: loaded, transport, resume: true });
  const isRunning = status === "submitted" || status === "streaming";
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    if (isRunning) return;
    void sendMessage({ text: String(new FormData(event.currentTarget).get("text")) });
    event.currentTarget.reset();
  };
  return (
    <>
      <a href="/">All threads</a>
      <ol aria-live="polite" data-status={status}>
        {messages.map(({ id, role, parts }) => (
          <li key={id} className={role}>
            {parts.map((part) => (part.type === "text" ? part.text : "")).join("")}
          </li>
        ))}
      </ol>
      {error && (
        <p role="alert">
          {error.message} <button onClick={() => void resumeStream()}>Go on</button>
        </p>
      )}
      <form onSubmit={submit}>
        <input name="text" aria-label="Message" placeholder="Say something" required autoComplete="off" />
        {isRunning ? (
          <button type="button" onClick={() => void transport.stop(chatId)}>
            Stop
          </button>
        ) : (
          <button>Send</button>
        )}
        {!isRunning && messages.length > 0 && (
          <button type="button" onClick={() => void regenerate()}>
            Answer again
          </button>
        )}
      </form>
    </>
  );
}
