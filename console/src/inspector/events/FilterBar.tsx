import { ListFilter, Search } from "lucide-react";
import { useEffect, useId, useRef, useState } from "react";
import { Button } from "../../parts/Button.tsx";
import type { ThreadLog } from "../log/thread-log.ts";
import { useRuns } from "../log/use-log.ts";
import { clock, shortId } from "../time.ts";
import { choicesOf, FAMILIES, type Family, FAMILY_NAMES } from "./families.ts";
import { EVERYTHING, type Filter, isActive, shownOf, withTypes } from "./filter.ts";
import { type Times, TIMES } from "./times.ts";

/** How long one may think before a text is looked for. */
const TYPING_MS = 250;
/** Runs that can be chosen. */
const MOST_RUNS = 200;

/** Which events are shown, and how. */
export function FilterBar(props: {
  readonly log: ThreadLog;
  readonly filter: Filter;
  readonly times: Times;
  readonly onFilter: (filter: Filter) => void;
  readonly onTimes: (times: Times) => void;
}) {
  const { log, filter, times, onFilter, onTimes } = props;
  return (
    <div role="search" aria-label="Events" className="filter-bar">
      <TextField filter={filter} onFilter={onFilter} />
      <TypeMenu filter={filter} onFilter={onFilter} />
      <RunChoice log={log} filter={filter} onFilter={onFilter} />
      <select
        className="input"
        aria-label="Times"
        value={times}
        onChange={(event) => onTimes(event.target.value as Times)}
      >
        {Object.entries(TIMES).map(([name, label]) => (
          <option key={name} value={name}>
            {label}
          </option>
        ))}
      </select>
      {isActive(filter) && <Button onClick={() => onFilter(EVERYTHING)}>Show all</Button>}
    </div>
  );
}

interface Filtering {
  readonly filter: Filter;
  readonly onFilter: (filter: Filter) => void;
}

function TextField({ filter, onFilter }: Filtering) {
  const [text, setText] = useState(filter.text);
  const latest = useRef({ filter, onFilter });
  latest.current = { filter, onFilter };
  // It was changed elsewhere.
  useEffect(() => setText(filter.text), [filter.text]);
  useEffect(() => {
    const timer = setTimeout(() => {
      const { filter, onFilter } = latest.current;
      if (text !== filter.text) onFilter({ ...filter, text });
    }, TYPING_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return (
    <label className="filter-text">
      <Search aria-hidden="true" />
      <span className="visually-hidden">Search in events</span>
      <input
        type="search"
        className="input"
        placeholder="Search in events"
        value={text}
        onChange={(event) => setText(event.target.value)}
      />
    </label>
  );
}

function TypeMenu({ filter, onFilter }: Filtering) {
  const id = useId();
  const button = useRef<HTMLButtonElement>(null);
  const menu = useRef<HTMLDivElement>(null);
  const [isOpen, setOpen] = useState(false);
  const { size } = filter.hidden;
  const toggled = (open: boolean) => {
    setOpen(open);
    if (!open) return;
    const { bottom, left } = button.current!.getBoundingClientRect();
    const { style, offsetWidth } = menu.current!;
    style.top = `${bottom + 4}px`;
    style.left = `${Math.max(4, Math.min(left, innerWidth - offsetWidth - 8))}px`;
    style.maxHeight = `${innerHeight - bottom - 12}px`;
  };
  return (
    <>
      <button
        ref={button}
        type="button"
        className={size > 0 ? "button filter-types active" : "button filter-types"}
        popoverTarget={id}
        aria-expanded={isOpen}
      >
        <ListFilter aria-hidden="true" />
        Types
        {size > 0 && <span>{`−${size}`}</span>}
      </button>
      <div
        ref={menu}
        id={id}
        popover="auto"
        role="group"
        aria-label="Types of events"
        className="menu type-menu"
        onToggle={(event) => toggled(event.newState === "open")}
      >
        {FAMILY_NAMES.map((family) => (
          <FamilyChoices key={family} family={family} filter={filter} onFilter={onFilter} />
        ))}
      </div>
    </>
  );
}

function FamilyChoices({ family, filter, onFilter }: Filtering & { readonly family: Family }) {
  const choices = choicesOf(family);
  const shown = shownOf(filter, family);
  return (
    <fieldset>
      <label className="check family">
        <input
          type="checkbox"
          checked={shown === "all"}
          ref={(box) => {
            if (box) box.indeterminate = shown === "some";
          }}
          onChange={() => onFilter(withTypes(filter, choices, shown !== "all"))}
        />
        <span className={`family-${family}`}>{FAMILIES[family].label}</span>
      </label>
      {choices.map((type) => (
        <label key={type} className="check">
          <input
            type="checkbox"
            checked={!filter.hidden.has(type)}
            onChange={(event) => onFilter(withTypes(filter, [type], event.target.checked))}
          />
          <code>{type}</code>
        </label>
      ))}
    </fieldset>
  );
}

function RunChoice({ log, filter, onFilter }: Filtering & { readonly log: ThreadLog }) {
  const { runs } = useRuns(log);
  const { runId } = filter;
  const shown = runs.slice(0, MOST_RUNS);
  const isMissing = runId !== undefined && !shown.some((run) => run.runId === runId);
  return (
    <select
      className="input"
      aria-label="Run"
      value={runId ?? ""}
      onChange={(event) => onFilter({ ...filter, runId: event.target.value || undefined })}
    >
      <option value="">All runs</option>
      {isMissing && <option value={runId}>{shortId(runId)}</option>}
      {shown.map(({ runId, agentId, startedAt }) => (
        <option key={runId} value={runId}>
          {[clock(startedAt), agentId, shortId(runId)].filter(Boolean).join(" · ")}
        </option>
      ))}
    </select>
  );
}
