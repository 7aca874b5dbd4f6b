import type { FormEvent } from "react";
import { useThread } from "threadline/react";

export function Chat({ threadId }: { threadId: string }) {
  const { messages, isRunning, error, send, retry, discard, stop } = useThread(threadId, { agentId: "demo" });
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = event.currentTarget;
    if (isRunning) return;
    // The message is shown at once. If it is refused, it says so.
    send(String(new FormData(form).get("text"))).catch(() => {});
    form.reset();
  };
  const texts = messages.filter(({ content }) => typeof content === "string" && content !== "");
  return (
    <main>
      <div className="scroll">
        <ol aria-live="polite">
          {texts.map(({ id, role, content, delivery }) => (
            <li key={id} className={[role, delivery].join(" ")}>
              {String(content)}
              {delivery === "failed" && <button onClick={() => retry(id).catch(() => {})}>Send again</button>}
              {delivery === "failed" && <button onClick={() => discard(id)}>Discard</button>}
            </li>
          ))}
        </ol>
      </div>
      {error && <p role="alert">{error.message}</p>}
      <form onSubmit={submit}>
        <input key={threadId} name="text" aria-label="Message" placeholder="Say something" required autoComplete="off" autoFocus />
        {isRunning ? <button type="button" onClick={stop}>Stop</button> : <button>Send</button>}
      </form>
    </main>
  );
}
