import { ChevronLeft, ChevronRight } from "lucide-react";
import { useEffect, useRef } from "react";
import type { Parting } from "threadline/react";
import { IconButton } from "../parts/Button.tsx";
import { arrived, expectedIn, type Step } from "./arrival.ts";

/** The branches that differ from a place on: shows which one this is, and goes to the others. */
export function BranchPicker(props: {
  readonly parting: Parting;
  /** Goes to a branch, where the picker of the same place gets the focus. */
  readonly onPick: (parting: Parting, step: Step) => void;
}) {
  const { parting, onPick } = props;
  const { threads, shown, seq } = parting;
  const group = useRef<HTMLDivElement>(null);
  const threadId = threads[shown]?.threadId;
  useEffect(() => {
    // Before it is measured, a message is hidden and takes no focus.
    let frame = 0;
    const focus = () => {
      const expected = expectedIn(threadId);
      if (expected?.seq !== seq) return;
      // At the last branch the same button is off.
      const usable = [...(group.current?.querySelectorAll<HTMLButtonElement>("button:enabled") ?? [])];
      const target = usable.find(({ name }) => name === expected.step) ?? usable[0];
      target?.focus();
      if (target === document.activeElement) arrived();
      else frame = requestAnimationFrame(focus);
    };
    focus();
    return () => cancelAnimationFrame(frame);
  }, [threadId, seq]);
  return (
    <div
      ref={group}
      className="branch-picker"
      data-seq={seq}
      role="group"
      aria-label={`Branch ${shown + 1} of ${threads.length}`}
    >
      <IconButton
        className="small"
        label="Previous branch"
        name="previous"
        disabled={shown === 0}
        onClick={() => onPick(parting, "previous")}
      >
        <ChevronLeft />
      </IconButton>
      <span aria-hidden="true">
        {shown + 1}/{threads.length}
      </span>
      <IconButton
        className="small"
        label="Next branch"
        name="next"
        disabled={shown === threads.length - 1}
        onClick={() => onPick(parting, "next")}
      >
        <ChevronRight />
      </IconButton>
    </div>
  );
}
