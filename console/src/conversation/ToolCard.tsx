import { CircleAlert, CircleCheck, CircleDashed, UserRound } from "lucide-react";
import { type FormEvent, memo, useState } from "react";
import type { ToolCall } from "threadline";
import type { AnyMessage } from "../untrusted.ts";
import { Button } from "../parts/Button.tsx";
import { messageOf } from "../parts/failure.ts";
import { textOf } from "./content.ts";
import { CopyButton } from "./CopyButton.tsx";
import { Fold } from "./Fold.tsx";
import { Json } from "./Json.tsx";

/** Gives the result of a call. */
export type ToolAnswer = (toolCallId: string, result: string) => Promise<unknown>;

type State = "running" | "waiting" | "done" | "failed";

const STATES: Record<State, string> = {
  running: "Running",
  waiting: "Waits for its result",
  done: "Done",
  failed: "Failed",
};

/** A call of a tool: what it was given, and what came of it. */
export const ToolCard = memo(function ToolCard(props: {
  readonly call: ToolCall;
  readonly result: AnyMessage | undefined;
  readonly isRunning: boolean;
  readonly answer: ToolAnswer | undefined;
}) {
  const { call, result, isRunning, answer } = props;
  const { name, arguments: given } = call.function;
  const state = stateOf(result, isRunning);
  const hasArguments = given.trim() !== "" && given.trim() !== "{}";
  return (
    <section className={`tool-card ${state}`} aria-label={`Tool call ${name}`}>
      <header>
        <StateIcon state={state} />
        <code className="tool-name">{name || "a tool"}</code>
        <span className="tool-state">{STATES[state]}</span>
        {hasArguments && <CopyButton text={given} label="Copy the arguments" />}
      </header>
      {hasArguments && <Json value={given} label={`Arguments of ${name}`} />}
      {result && <Result name={name} result={result} />}
      {state === "waiting" && answer && <AnswerForm callId={call.id} answer={answer} />}
    </section>
  );
});

function stateOf(result: AnyMessage | undefined, isRunning: boolean): State {
  if (result) return result.error ? "failed" : "done";
  return isRunning ? "running" : "waiting";
}

function StateIcon({ state }: { readonly state: State }) {
  if (state === "running") return <span className="spinner" aria-hidden="true" />;
  if (state === "waiting") return <CircleDashed aria-hidden="true" />;
  return state === "done" ? <CircleCheck aria-hidden="true" /> : <CircleAlert aria-hidden="true" />;
}

function Result({ name, result }: { readonly name: string; readonly result: AnyMessage }) {
  const text = textOf(result);
  const error = typeof result.error === "string" ? result.error : "";
  return (
    <>
      {error && <p className="tool-error">{error}</p>}
      {(text || !error) && (
        <Fold id={`result ${result.id}`} className="tool-result" summary={<ResultSummary text={text} />}>
          <Json value={text || "(empty)"} label={`Result of ${name}`} />
        </Fold>
      )}
    </>
  );
}

/** The first of it, so that one need not look into each. */
function ResultSummary({ text }: { readonly text: string }) {
  return (
    <>
      Result <span className="glimpse">{text.slice(0, 120)}</span>
    </>
  );
}

/** For a client that is not there. */
function AnswerForm({ callId, answer }: { readonly callId: string; readonly answer: ToolAnswer }) {
  const [isBusy, setBusy] = useState(false);
  const [failure, setFailure] = useState<string | null>(null);
  const submit = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const result = String(new FormData(event.currentTarget).get("result") ?? "");
    setBusy(true);
    setFailure(null);
    // Resolves when all calls of the message have theirs, and the run that has them has begun.
    await answer(callId, result).catch((error: unknown) => setFailure(messageOf(error)));
    setBusy(false);
  };
  const summary = (
    <>
      <UserRound aria-hidden="true" /> Answer for the client
    </>
  );
  return (
    <Fold id={`answer ${callId}`} className="tool-answer" summary={summary}>
      <form onSubmit={submit}>
        <label className="field">
          <span>Result</span>
          <textarea className="input mono" name="result" rows={3} placeholder='{"ok": true}' disabled={isBusy} />
          <small>
            {isBusy
              ? "Saved. It is sent when all calls of this message have results."
              : "Text or JSON, as the tool would return it. The agent continues with it."}
          </small>
        </label>
        {failure && <p role="alert">{failure}</p>}
        <Button type="submit" disabled={isBusy}>
          Send the result
        </Button>
      </form>
    </Fold>
  );
}
