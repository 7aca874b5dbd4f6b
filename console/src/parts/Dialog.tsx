import { type FormEvent, type ReactNode, useEffect, useId, useRef, useState } from "react";
import { messageOf } from "./failure.ts";
import { Button } from "./Button.tsx";

/**
 * A question that has to be answered first. `onConfirm` is called with what its form holds; the dialog closes when that has
 * happened, and stays with the reason if it fails. Focus goes back to where it was.
 */
export function Dialog(props: {
  readonly title: string;
  readonly children: ReactNode;
  readonly confirm: string;
  readonly tone?: "primary" | "danger";
  /** There is nothing to decide: one button, which closes it. */
  readonly isNotice?: boolean;
  readonly onConfirm: (form: FormData) => Promise<unknown> | void;
  readonly onClose: () => void;
}) {
  const { title, children, confirm, tone = "primary", isNotice = false, onConfirm, onClose } = props;
  const dialog = useRef<HTMLDialogElement>(null);
  const heading = useId();
  const [isBusy, setBusy] = useState(false);
  const [failure, setFailure] = useState<string | null>(null);
  useEffect(() => {
    const shown = dialog.current!;
    const before = document.activeElement;
    shown.showModal();
    return () => {
      shown.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  const submit = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    if (isBusy) return;
    setBusy(true);
    setFailure(null);
    try {
      await onConfirm(new FormData(event.currentTarget));
      onClose();
    } catch (error) {
      setFailure(messageOf(error));
      setBusy(false);
    }
  };
  const cancel = (event: { preventDefault(): void }) => {
    event.preventDefault();
    onClose();
  };
  return (
    <dialog ref={dialog} className="dialog" aria-labelledby={heading} onCancel={cancel}>
      <form onSubmit={submit}>
        <h2 id={heading}>{title}</h2>
        {children}
        {failure && <p role="alert">{failure}</p>}
        <div className="actions">
          {!isNotice && <Button onClick={onClose}>Cancel</Button>}
          <Button type="submit" tone={tone} disabled={isBusy}>
            {confirm}
          </Button>
        </div>
      </form>
    </dialog>
  );
}
