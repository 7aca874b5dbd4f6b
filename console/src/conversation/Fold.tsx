import { ChevronRight } from "lucide-react";
import { createContext, type ReactNode, useContext, useState } from "react";

/** Which folds of a conversation are open: they stay so while they are scrolled out of sight. */
export const OpenFolds = createContext<Set<string>>(new Set());

/** Folded away until it is wanted; what is within is made only then. `id` is its own within the conversation. */
export function Fold(props: {
  readonly id: string;
  readonly summary: ReactNode;
  readonly className: string;
  readonly children: ReactNode;
}) {
  const { id, summary, className, children } = props;
  const open = useContext(OpenFolds);
  const [isOpen, setOpen] = useState(open.has(id));
  const toggle = (isNowOpen: boolean) => {
    if (isNowOpen) open.add(id);
    else open.delete(id);
    setOpen(isNowOpen);
  };
  return (
    <details className={`fold ${className}`} open={isOpen} onToggle={({ currentTarget }) => toggle(currentTarget.open)}>
      <summary
        onClick={(event) => {
          // The browser's own toggle event comes later: a fold that is rendered again in between would lose it.
          event.preventDefault();
          toggle(!isOpen);
        }}
      >
        <ChevronRight aria-hidden="true" />
        {summary}
      </summary>
      {isOpen && <div className="fold-content">{children}</div>}
    </details>
  );
}
