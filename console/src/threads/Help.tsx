import { Dialog } from "../parts/Dialog.tsx";

const SHORTCUTS: readonly (readonly [string, readonly string[]])[] = [
  ["Search the threads", ["/"]],
  ["Move in the list", ["↑", "↓", "Home", "End"]],
  ["Rename the thread", ["F2"]],
  ["Delete the thread in the list", ["Delete"]],
  ["New thread", ["n"]],
  ["Show or hide the inspector", ["i"]],
  ["Write a message", ["c"]],
  ["Send, or queue while a run is active", ["Enter"]],
  ["Stop the run and send", ["Ctrl", "Enter"]],
  ["New line", ["Shift", "Enter"]],
  ["Leave the message field", ["Esc"]],
  ["These shortcuts", ["?"]],
];

/** The keyboard shortcuts. */
export function Help({ onClose }: { readonly onClose: () => void }) {
  return (
    <Dialog title="Keyboard shortcuts" confirm="Close" isNotice onConfirm={() => {}} onClose={onClose}>
      <dl className="shortcuts">
        {SHORTCUTS.map(([what, keys]) => (
          <div key={what}>
            <dt>{what}</dt>
            <dd>
              {keys.map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
