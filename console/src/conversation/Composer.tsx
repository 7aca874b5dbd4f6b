import { ArrowUp, ListEnd, Square, Zap } from "lucide-react";
import { type KeyboardEvent, type ReactNode, useId, useLayoutEffect, useRef, useState } from "react";
import type { Agent } from "threadline";
import { Button, IconButton } from "../parts/Button.tsx";
import { useShortcuts } from "../threads/shortcuts.ts";
import { AgentChoice } from "./AgentChoice.tsx";
import { useDraft } from "./draft.ts";
import { refusalOf } from "./refusal.ts";

/** Where a message is written. What is not sent is kept, and so is what was refused. */
export function Composer(props: {
  /** Whose draft it is. */
  readonly threadId: string;
  readonly agents: readonly Agent[] | undefined;
  readonly agentId: string | undefined;
  readonly onAgent: (agentId: string) => void;
  /** `busy` is for a run that is under way, or begins meanwhile: the message waits for its end, or stops it. */
  readonly onSend: (text: string, busy: "enqueue" | "interrupt") => Promise<unknown>;
  /** Where a run is under way: `stopping` if it was asked to stop. What is sent then waits in the queue. */
  readonly running?: "running" | "stopping" | undefined;
  /** Absent where it cannot be stopped. */
  readonly onStop?: (() => void) | undefined;
  /** Why nothing can be sent. */
  readonly blocked?: ReactNode;
  readonly hasFocus?: boolean;
}) {
  const { threadId, agents, agentId, onAgent, onSend, running, onStop, blocked, hasFocus } = props;
  const [text, write] = useDraft(threadId);
  const [isSending, setSending] = useState(false);
  const [refusal, setRefusal] = useState<string | null>(null);
  const area = useRef<HTMLTextAreaElement>(null);
  const hint = useId();
  useShortcuts({ c: () => area.current?.focus() });
  useLayoutEffect(() => {
    const { current } = area;
    if (!current) return;
    // As high as what is written; CSS says how high at most.
    current.style.height = "auto";
    current.style.height = `${current.scrollHeight + 2}px`;
  }, [text]);

  const canSend = text.trim() !== "" && !isSending && !blocked && agentId !== undefined;
  const send = async (busy: "enqueue" | "interrupt" = "enqueue") => {
    if (!canSend) return;
    setSending(true);
    setRefusal(null);
    try {
      await onSend(text.trim(), busy);
      write("");
    } catch (error) {
      setRefusal(refusalOf(error));
    } finally {
      setSending(false);
    }
    area.current?.focus();
  };
  const keyed = (event: KeyboardEvent) => {
    // An input method takes these keys for its own.
    if (event.nativeEvent.isComposing || event.keyCode === 229) return;
    // So that the page's shortcuts can be used.
    if (event.key === "Escape") area.current?.blur();
    if (event.key !== "Enter" || event.shiftKey) return;
    event.preventDefault();
    void send(event.ctrlKey || event.metaKey ? "interrupt" : "enqueue");
  };
  return (
    <form
      className="composer"
      aria-label="Write a message"
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
    >
      {refusal && (
        <p className="composer-refusal" role="alert">
          {refusal}
        </p>
      )}
      {blocked && (
        <p className="composer-blocked" id={hint}>
          {blocked}
        </p>
      )}
      <div className="composer-box">
        <textarea
          ref={area}
          rows={1}
          dir="auto"
          aria-label="Message"
          aria-describedby={blocked ? hint : undefined}
          placeholder={agentId && !blocked ? `Message ${agentId}` : "Message"}
          value={text}
          readOnly={isSending}
          disabled={Boolean(blocked)}
          autoFocus={hasFocus}
          onChange={(event) => write(event.target.value)}
          onKeyDown={keyed}
        />
        <div className="composer-bar">
          <AgentChoice agents={agents} chosen={agentId} onChoose={onAgent} />
          <div className="composer-actions">
            {running && canSend && (
              <IconButton
                label="Stop the run and send this now"
                aria-keyshortcuts="Control+Enter"
                onClick={() => void send("interrupt")}
              >
                <Zap />
              </IconButton>
            )}
            {running && (
              <Button
                className="send"
                onClick={() => {
                  onStop?.();
                  // The button disappears; focus moves to the text field.
                  area.current?.focus();
                }}
                disabled={running === "stopping" || !onStop}
              >
                <Square aria-hidden="true" fill="currentColor" /> {running === "stopping" ? "Stopping…" : "Stop"}
              </Button>
            )}
            {/* A message that is being written keeps its button when a run begins or ends. */}
            {(!running || text.trim() !== "") && (
              <Button className="send" type="submit" tone="primary" disabled={!canSend}>
                {running ? <ListEnd aria-hidden="true" /> : <ArrowUp aria-hidden="true" />} {running ? "Queue" : "Send"}
              </Button>
            )}
          </div>
        </div>
      </div>
    </form>
  );
}
