import { useEffect, useRef } from "react";

/** Keyboard shortcuts of the page. They are off while the user types or a dialog is open. */
export function useShortcuts(shortcuts: Readonly<Record<string, () => void>>): void {
  const newest = useRef(shortcuts);
  useEffect(() => {
    newest.current = shortcuts;
  });
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
      if (isTypedInto(event.target) || document.querySelector("dialog[open], [popover]:popover-open")) return;
      const action = Object.hasOwn(newest.current, event.key) ? newest.current[event.key] : undefined;
      if (!action) return;
      event.preventDefault();
      action();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}

function isTypedInto(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || target.matches("input:not([type=checkbox], [type=radio]), textarea, select");
}
