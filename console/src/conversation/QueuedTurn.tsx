import { ArrowDown, ArrowUp, Pencil, SendHorizontal, X } from "lucide-react";
import { useId, useRef, useState } from "react";
import type { ShownTurn } from "threadline/react";
import { IconButton } from "../parts/Button.tsx";
import { isText, textOfTurn } from "./queue.ts";
import { TextEditor } from "./TextEditor.tsx";

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
      {isOpen ? (
        <TextEditor text={text} label="Waiting message" confirm="Save" onSave={onEdit} onLeave={leave} />
      ) : (
        said
      )}
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
