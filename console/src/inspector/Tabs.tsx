import type { KeyboardEvent } from "react";
import { PANELS, type Panel } from "../route.ts";

const LABELS: Record<Panel, string> = { events: "Events", state: "State", runs: "Runs", live: "Live" };

/** The pages of the inspector. */
export function Tabs({ panel, onSelect }: { readonly panel: Panel; readonly onSelect: (panel: Panel) => void }) {
  const keyed = (event: KeyboardEvent<HTMLElement>) => {
    const at = PANELS.indexOf(panel);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: -1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const next = PANELS.at(to % PANELS.length)!;
    onSelect(next);
    event.currentTarget.querySelector<HTMLElement>(`#inspector-tab-${next}`)?.focus();
  };
  return (
    <div role="tablist" aria-label="Inspector" className="inspector-tabs" onKeyDown={keyed}>
      {PANELS.map((each) => (
        <button
          key={each}
          type="button"
          role="tab"
          id={`inspector-tab-${each}`}
          aria-selected={each === panel}
          aria-controls={each === panel ? "inspector-panel" : undefined}
          tabIndex={each === panel ? 0 : -1}
          onClick={() => onSelect(each)}
        >
          {LABELS[each]}
        </button>
      ))}
    </div>
  );
}
