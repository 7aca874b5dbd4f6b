"use client";

import { type FormEvent, useState } from "react";
import { type Dehydrated, ThreadlineProvider, useThread } from "threadline/react";
import { clientAt } from "../../lib/browser";

export function Chat({ url, initial, threadId }: { url: string; initial: Dehydrated | undefined; threadId: string }) {
  return (
    <ThreadlineProvider client={clientAt(url)} initial={initial}>
      <Messages threadId={threadId} />
    </ThreadlineProvider>
  );
}

function Messages({ threadId }: { threadId: string }) {
  const { messages, isLoading, isRunning, error, stop } = useThread(threadId);
  const [refusal, setRefusal] = useState("");
  const submit = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = event.currentTarget;
    const body = JSON.stringify({ threadId, text: new FormData(form).get("text") });
    const answer = await fetch("/api/runs", { method: "POST", body, headers: { "Content-Type": "application/json" } });
    setRefusal(answer.ok ? "" : await answer.text());
    if (answer.ok) form.reset();
  };
  return (
    <>
      <a href="/">All threads</a>
      <ol aria-live="polite" aria-busy={isLoading}>
        {messages.map(({ id, role, content }) => (
          <li key={id} className={role}>
            {String(content)}
          </li>
        ))}
      </ol>
      <p role="alert">{refusal || error?.message}</p>
      <form onSubmit={submit}>
        <input name="text" aria-label="Message" placeholder="Say something" required autoComplete="off" />
        {isRunning ? (
          <button type="button" onClick={() => void stop()}>
            Stop
          </button>
        ) : (
          <button>Send</button>
        )}
      </form>
    </>
  );
}
