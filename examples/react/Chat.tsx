import type { FormEvent } from "react";
import { useThread } from "threadline/react";

export function Chat({ threadId }: { threadId: string }) {
  const { messages, isRunning, error, send, stop } = useThread(threadId, { agentId: "demo" });
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = event.currentTarget;
    // If the message is refused, the text stays, and `error` has the reason.
    if (!isRunning) send(String(new FormData(form).get("text"))).then(() => form.reset(), () => {});
  };
  const texts = messages.filter(({ content }) => typeof content === "string" && content !== "");
  return (
    <main>
      <div className="scroll">
        <ol aria-live="polite">
          {texts.map(({ id, role, content }) => <li key={id} className={role}>{String(content)}</li>)}
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
