import { useMemo, useState } from "react";
import type { Parting, UseThread } from "threadline/react";
import { useNotices } from "../parts/notices.tsx";
import { go, type Panel } from "../route.ts";
import { expectArrival, type Step } from "./arrival.ts";
import type { DeliveryActions } from "./Delivery.tsx";
import { refusalOf } from "./refusal.ts";

/** Changes of a conversation that begin another branch, which is then shown. */
export interface Branching {
  /** Sends another text in place of a message. If that is refused, the message says so. */
  readonly edit: (messageId: string, text: string) => Promise<void>;
  /** Has an answer made again. A refusal is shown as a notice. */
  readonly regenerate: (messageId: string) => void;
  /** Opens the field in which a message is edited; null closes it. */
  readonly onEditing: (messageId: string | null) => void;
}

interface Branches {
  /** Absent where nothing can be written. */
  readonly branching: Branching | undefined;
  /** The message that is being edited. */
  readonly edited: string | null;
  readonly pick: (parting: Parting, step: Step) => void;
  /** Absent where nothing can be written. */
  readonly deliveries: DeliveryActions | undefined;
}

/** The branches of the conversation that is open, and the way to another one. */
export function useBranches(
  live: Pick<UseThread, "edit" | "regenerate" | "listBranch" | "retry" | "discard">,
  panel: Panel | undefined,
  mayWrite: boolean,
): Branches {
  const { edit, regenerate, listBranch, retry, discard } = live;
  const { fail } = useNotices();
  const [edited, setEdited] = useState<string | null>(null);
  const methods = useMemo(() => {
    const show = (threadId: string) => go({ name: "thread", threadId, panel });
    const refuse = (error: unknown) => fail(refusalOf(error));
    const branching: Branching = {
      // No page shows the rest of an answer in a branch that was left.
      edit: async (messageId, text) => {
        // The edited message is shown at once, and takes the place of the field.
        edit(messageId, text, { stop: true }).then(({ threadId }) => show(threadId), untold);
      },
      regenerate: (messageId) =>
        void regenerate(messageId, { stop: true }).then(({ threadId }) => show(threadId), refuse),
      onEditing: setEdited,
    };
    const pick = ({ threads, shown, seq }: Parting, step: Step) => {
      const threadId = threads[step === "next" ? shown + 1 : shown - 1]?.threadId;
      if (threadId === undefined) return;
      expectArrival(threadId, seq, step);
      show(threadId);
      if (mayWrite) listBranch(threadId).catch(refuse);
    };
    const deliveries: DeliveryActions = {
      // An edit that succeeds now has made a branch.
      retry: (messageId) => void retry(messageId).then((answer) => answer.run && show(answer.threadId), untold),
      discard,
    };
    return { branching: mayWrite ? branching : undefined, pick, deliveries: mayWrite ? deliveries : undefined };
  }, [edit, regenerate, listBranch, retry, discard, panel, mayWrite, fail]);
  return { ...methods, edited };
}

/** The message itself says why it was not sent. */
export function untold(): void {}
