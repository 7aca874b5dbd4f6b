import { ChevronDown, ChevronRight } from "lucide-react";
import { type KeyboardEvent, useId, useMemo, useRef, useState } from "react";
import { VList, type VListHandle } from "virtua";
import { scalar } from "./tokens.ts";
import { firstOpen, summary, treeRows, type TreeRow } from "./tree.ts";

const ROW_PX = 24;

/** A value as a tree that is opened and closed. What was opened stays so while the value changes. */
export function JsonTree({ value, label }: { readonly value: unknown; readonly label: string }) {
  const id = useId();
  const list = useRef<VListHandle>(null);
  const first = useMemo(() => firstOpen(value), [value]);
  const [toggled, setToggled] = useState<ReadonlyMap<string, boolean>>(new Map());
  const [active, setActive] = useState("");
  const rows = useMemo(() => treeRows(value, (path) => toggled.get(path) ?? first.has(path)), [value, toggled, first]);
  const at = Math.max(
    0,
    rows.findIndex(({ path }) => path === active),
  );
  const isOpen = (row: TreeRow) => toggled.get(row.path) ?? first.has(row.path);
  const toggle = (row: TreeRow, open: boolean) => setToggled((all) => new Map(all).set(row.path, open));
  const go = (to: number) => {
    const row = rows[Math.min(Math.max(to, 0), rows.length - 1)]!;
    setActive(row.path);
    list.current?.scrollToIndex(rows.indexOf(row), { align: "nearest" });
  };
  const keyed = (event: KeyboardEvent) => {
    const row = rows[at]!;
    const canOpen = row.members !== null && row.members > 0;
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: rows.length - 1 }[event.key];
    if (to !== undefined) go(to);
    else if (event.key === "ArrowRight" && canOpen) isOpen(row) ? go(at + 1) : toggle(row, true);
    else if (event.key === "ArrowLeft" && canOpen && isOpen(row)) toggle(row, false);
    else if (event.key === "ArrowLeft") go(parentOf(rows, at));
    else if ((event.key === "Enter" || event.key === " ") && canOpen) toggle(row, !isOpen(row));
    else return;
    event.preventDefault();
  };
  return (
    <VList
      ref={list}
      className="json-tree"
      role="tree"
      aria-label={label}
      aria-activedescendant={`${id}-${at}`}
      tabIndex={0}
      data={rows}
      itemSize={ROW_PX}
      keepMounted={[at]}
      onKeyDown={keyed}
    >
      {(row, index) => (
        <Row
          key={row.path}
          id={`${id}-${index}`}
          row={row}
          isOpen={isOpen(row)}
          isActive={index === at}
          onClick={() => {
            setActive(row.path);
            if (row.members) toggle(row, !isOpen(row));
          }}
        />
      )}
    </VList>
  );
}

function Row(props: {
  readonly id: string;
  readonly row: TreeRow;
  readonly isOpen: boolean;
  readonly isActive: boolean;
  readonly onClick: () => void;
}) {
  const { id, row, isOpen, isActive, onClick } = props;
  const { depth, name, isIndex, value, members, place, siblings } = row;
  const canOpen = members !== null && members > 0;
  return (
    <div
      id={id}
      role="treeitem"
      aria-level={depth + 1}
      aria-posinset={place}
      aria-setsize={siblings}
      aria-expanded={canOpen ? isOpen : undefined}
      aria-selected={isActive}
      className={isActive ? "tree-row active" : "tree-row"}
      style={{ paddingInlineStart: `${depth * 1.1 + 0.25}rem` }}
      title={row.path || undefined}
      onClick={onClick}
    >
      <span className="tree-mark" aria-hidden="true">
        {canOpen && (isOpen ? <ChevronDown /> : <ChevronRight />)}
      </span>
      {name !== null && <span className={isIndex ? "token-mark" : "token-key"}>{`${name}: `}</span>}
      {members === null ? (
        <span className="tree-value">
          {scalar(value).map(({ kind, text }) => (
            <span key={kind} className={`token-${kind}`}>
              {text}
            </span>
          ))}
        </span>
      ) : (
        <span className="token-mark">{canOpen && isOpen ? (Array.isArray(value) ? "[" : "{") : summary(value)}</span>
      )}
    </div>
  );
}

function parentOf(rows: readonly TreeRow[], at: number): number {
  const { depth } = rows[at]!;
  for (let row = at - 1; row >= 0; row -= 1) if (rows[row]!.depth < depth) return row;
  return 0;
}
