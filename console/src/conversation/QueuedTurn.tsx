import { ArrowDown, ArrowUp, Pencil, SendHorizontal, X } from "lucide-react";
import { type KeyboardEvent, useEffect, useId, useRef, useState } from "react";
import type { ShownTurn } from "threadline/react";
import { Button, IconButton } from "../parts/Button.tsx";
import { isText, textOfTurn } from "./queue.ts";
import { refusalOf } from "./refusal.ts";

/** A message that waits. */
export function QueuedTurn(props: {
  readonly turn: ShownTurn;
  readonly mayWrite: boolean;
  readonly onEdit: (text: string) => Promise<unknown>;
  /** Absent at the ends of the list. */
  readonly onUp: (() => void) | undefined;
  readonly onDown: (() => void) | undefined;
  readonly onStart: () => void;
  readonly onRemove: () => void;
}) {
  const { turn, mayWrite, onEdit, onUp, onDown, onStart, onRemove } = props;
  const [isEditing, setEditing] = useState(false);
  const pencil = useRef<HTMLButtonElement>(null);
  const id = useId();
  const text = textOfTurn(turn);
  const isOpen = isEditing && !turn.hasBegun;
  const leave = () => {
    setEditing(false);
    // The field disappears; focus moves to the button that has opened it.
    requestAnimationFrame(() => pencil.current?.focus());
  };
  const said = (
    <p className="queued-text" id={id} dir="auto">
      {text}
    </p>
  );
  return (
    <li className={turn.hasBegun ? "queued-turn begun" : "queued-turn"} data-run-id={turn.runId}>
      {isOpen ? <Editor text={text} onSave={onEdit} onLeave={leave} /> : said}
      {turn.hasBegun && <span className="queued-state">Begins…</span>}
      {mayWrite && !turn.hasBegun && !isOpen && (
        <div className="queued-actions" role="group" aria-labelledby={id}>
          {isText(turn) && (
            <IconButton ref={pencil} label="Edit" onClick={() => setEditing(true)}>
              <Pencil />
            </IconButton>
          )}
          <IconButton label="Move up" name="up" onClick={onUp} disabled={!onUp}>
            <ArrowUp />
          </IconButton>
          <IconButton label="Move down" name="down" onClick={onDown} disabled={!onDown}>
            <ArrowDown />
          </IconButton>
          <IconButton label="Send now" onClick={onStart}>
            <SendHorizontal />
          </IconButton>
          <IconButton label="Remove" onClick={onRemove}>
            <X />
          </IconButton>
        </div>
      )}
    </li>
  );
}

/** The text of a waiting message while it is changed. What is refused is kept. */
function Editor(props: {
  readonly text: string;
  readonly onSave: (text: string) => Promise<unknown>;
  readonly onLeave: () => void;
}) {
  const { onSave, onLeave } = props;
  const [text, setText] = useState(props.text);
  const [isSaving, setSaving] = useState(false);
  const [refusal, setRefusal] = useState<string | null>(null);
  const area = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    area.current?.focus();
    area.current?.setSelectionRange(-1, -1);
  }, []);
  const canSave = text.trim() !== "" && !isSaving;
  const save = async () => {
    if (!canSave) return;
    if (text.trim() === props.text) return onLeave();
    setSaving(true);
    try {
      await onSave(text.trim());
      onLeave();
    } catch (error) {
      setRefusal(refusalOf(error));
      setSaving(false);
    }
  };
  const keyed = (event: KeyboardEvent) => {
    // An input method takes these keys for its own.
    if (event.nativeEvent.isComposing || event.keyCode === 229) return;
    if (event.key === "Escape") onLeave();
    if (event.key !== "Enter" || event.shiftKey) return;
    event.preventDefault();
    void save();
  };
  return (
    <form
      className="queued-editor"
      aria-label="Edit the message"
      onSubmit={(event) => {
        event.preventDefault();
        void save();
      }}
    >
      {refusal && <p role="alert">{refusal}</p>}
      <textarea
        ref={area}
        className="input"
        dir="auto"
        aria-label="Waiting message"
        rows={Math.min(8, text.split("\n").length)}
        value={text}
        readOnly={isSaving}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={keyed}
      />
      <div className="queued-actions">
        <Button onClick={onLeave}>Cancel</Button>
        <Button type="submit" tone="primary" disabled={!canSave}>
          Save
        </Button>
      </div>
    </form>
  );
}
