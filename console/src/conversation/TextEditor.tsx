import { type KeyboardEvent, useEffect, useRef, useState } from "react";
import { Button } from "../parts/Button.tsx";
import { refusalOf } from "./refusal.ts";

/** The text of a message while it is changed: Enter confirms, Escape leaves. A text that is refused is kept. */
export function TextEditor(props: {
  readonly text: string;
  /** Accessible name of the field. */
  readonly label: string;
  readonly confirm: string;
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
      className="text-editor"
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
        aria-label={props.label}
        rows={Math.min(8, text.split("\n").length)}
        value={text}
        readOnly={isSaving}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={keyed}
      />
      <div className="text-editor-actions">
        <Button onClick={onLeave}>Cancel</Button>
        <Button type="submit" tone="primary" disabled={!canSave}>
          {props.confirm}
        </Button>
      </div>
    </form>
  );
}
