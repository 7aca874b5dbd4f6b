import { type FormEvent, useLayoutEffect, useRef } from "react";
import type { Line } from "./thread.ts";

type Props = {
  name: string;
  lines: readonly Line[];
  error?: string | undefined;
  /** Sends a message. A client without it only reads. */
  send?: (text: string) => void;
};

/** Messages as one client has them, and a field to write with it. */
export function Panel({ name, lines, error, send }: Props) {
  const list = useRef<HTMLOListElement>(null);
  // An effect returns nothing: `scrollTo` returns a promise in newer browsers.
  useLayoutEffect(() => {
    if (list.current) list.current.scrollTop = list.current.scrollHeight;
  }, [lines]);
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    send?.(String(new FormData(event.currentTarget).get("text")));
    event.currentTarget.reset();
  };
  return (
    <section aria-label={name}>
      <h2>{name}</h2>
      <ol ref={list} aria-live="polite">
        {lines.map(({ role, text }, at) => (
          <li key={at} className={role}>
            {text}
          </li>
        ))}
      </ol>
      {error && <p role="alert">{error}</p>}
      {send && (
        <form onSubmit={submit}>
          <input
            name="text"
            aria-label={`Message, by ${name}`}
            placeholder="Say something"
            required
            autoComplete="off"
          />
          <button>Send</button>
        </form>
      )}
    </section>
  );
}
