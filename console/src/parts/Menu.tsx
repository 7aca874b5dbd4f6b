import { EllipsisVertical } from "lucide-react";
import { type KeyboardEvent, type ReactNode, useId, useRef, useState } from "react";
import { flushSync } from "react-dom";
import { IconButton } from "./Button.tsx";

export interface MenuItem {
  readonly label: string;
  readonly icon: ReactNode;
  readonly tone?: "danger" | undefined;
  /** Why it cannot be chosen. */
  readonly blocked?: string | undefined;
  readonly onSelect: () => void;
}

/** A button that opens a menu. Arrow keys, Home and End move in it, Escape and a click elsewhere close it. */
export function Menu({
  label,
  items,
  icon = <EllipsisVertical />,
}: {
  readonly label: string;
  readonly items: readonly MenuItem[];
  readonly icon?: ReactNode;
}) {
  const id = useId();
  const button = useRef<HTMLButtonElement>(null);
  const menu = useRef<HTMLDivElement>(null);
  const [isOpen, setOpen] = useState(false);
  // Lists have many menus: what is in one is made when it is opened, before it is shown and placed.
  const toggling = (open: boolean) => open && flushSync(() => setOpen(true));
  const toggled = (open: boolean) => {
    setOpen(open);
    if (!open) return;
    place(menu.current!, button.current!);
    buttons(menu.current!)[0]?.focus();
  };
  const keyed = (event: KeyboardEvent) => {
    const all = buttons(menu.current!);
    const at = all.indexOf(document.activeElement as HTMLButtonElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 }[event.key];
    if (event.key === "Tab") menu.current!.hidePopover();
    if (to === undefined) return;
    event.preventDefault();
    all.at(to % all.length)?.focus();
  };
  return (
    <>
      <IconButton ref={button} label={label} popoverTarget={id} aria-haspopup="menu" aria-expanded={isOpen}>
        {icon}
      </IconButton>
      <div
        ref={menu}
        id={id}
        popover="auto"
        role="menu"
        aria-label={label}
        className="menu"
        onBeforeToggle={(event) => toggling(event.newState === "open")}
        onToggle={(event) => toggled(event.newState === "open")}
        onKeyDown={keyed}
      >
        {(isOpen ? items : []).map(({ label, icon, tone, blocked, onSelect }) => (
          <button
            key={label}
            type="button"
            role="menuitem"
            tabIndex={-1}
            className={tone ? `menu-item ${tone}` : "menu-item"}
            aria-disabled={blocked === undefined ? undefined : true}
            title={blocked}
            onClick={() => {
              if (blocked !== undefined) return;
              menu.current!.hidePopover();
              onSelect();
            }}
          >
            {icon}
            {label}
          </button>
        ))}
      </div>
    </>
  );
}

function buttons(menu: HTMLElement): HTMLButtonElement[] {
  return [...menu.querySelectorAll<HTMLButtonElement>("[role=menuitem]")];
}

/** Below the button, or above it where there is no room. */
function place(menu: HTMLElement, button: HTMLElement): void {
  const { top, bottom, right } = button.getBoundingClientRect();
  const { offsetWidth, offsetHeight } = menu;
  const below = bottom + 4;
  menu.style.top = `${below + offsetHeight > innerHeight ? Math.max(4, top - offsetHeight - 4) : below}px`;
  menu.style.left = `${Math.max(4, Math.min(right - offsetWidth, innerWidth - offsetWidth - 4))}px`;
}
