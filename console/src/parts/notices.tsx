import { X } from "lucide-react";
import { createContext, type ReactNode, useCallback, useContext, useMemo, useRef, useState } from "react";
import { IconButton } from "./Button.tsx";
import { messageOf } from "./failure.ts";

/** How long a notice stays, unless it is closed. Failures stay. */
const NOTICE_MS = 5_000;
const MOST_NOTICES = 4;

interface Notice {
  readonly id: number;
  readonly text: string;
  readonly isFailure: boolean;
}

interface Notices {
  /** Tells what has happened. */
  tell(text: string): void;
  /** Tells what went wrong. */
  fail(error: unknown): void;
}

const Context = createContext<Notices>({ tell: () => {}, fail: () => {} });

export function useNotices(): Notices {
  return useContext(Context);
}

/** Shows notices in a corner, and reads them out. */
export function NoticesProvider({ children }: { readonly children: ReactNode }) {
  const [notices, setNotices] = useState<readonly Notice[]>([]);
  const next = useRef(0);
  const close = useCallback((id: number) => setNotices((all) => all.filter((notice) => notice.id !== id)), []);
  const value = useMemo(() => {
    const add = (text: string, isFailure: boolean) => {
      const id = next.current++;
      setNotices((all) => [...all, { id, text, isFailure }].slice(-MOST_NOTICES));
      if (!isFailure) setTimeout(() => close(id), NOTICE_MS);
    };
    return { tell: (text: string) => add(text, false), fail: (error: unknown) => add(messageOf(error), true) };
  }, [close]);
  return (
    <Context.Provider value={value}>
      {children}
      <div className="notices" role="status" aria-live="polite">
        {notices.map(({ id, text, isFailure }) => (
          <div key={id} className={isFailure ? "notice error" : "notice"}>
            <p>{text}</p>
            <IconButton label="Close this notice" onClick={() => close(id)}>
              <X />
            </IconButton>
          </div>
        ))}
      </div>
    </Context.Provider>
  );
}
