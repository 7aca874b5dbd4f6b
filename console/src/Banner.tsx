import { useEffect, useState } from "react";
import { useConnection } from "./connection.ts";
import { Button } from "./parts/Button.tsx";

/** Shorter interruptions are not shown. */
const PATIENCE_MS = 700;

/** Shows that the server is unreachable; closes when the connection is back. */
export function Banner({ failure, onAgain }: { readonly failure: string | undefined; readonly onAgain: () => void }) {
  const status = useConnection();
  const isAway = status.state === "reconnecting" || status.state === "offline" || failure !== undefined;
  const isShown = useLasting(isAway, PATIENCE_MS);
  return (
    <div aria-live="polite">
      {isShown && (
        <div className="banner" data-testid="reconnect-banner">
          <span className="spinner" aria-hidden="true" />
          {failure ?? "Connection lost. The page may be out of date; it reconnects automatically."}
          {failure && <Button onClick={onAgain}>Try again</Button>}
        </div>
      )}
    </div>
  );
}

/** True when it has been for so long; false at once. */
function useLasting(is: boolean, ms: number): boolean {
  const [lasts, setLasts] = useState(false);
  useEffect(() => {
    if (!is) return setLasts(false);
    const timer = setTimeout(() => setLasts(true), ms);
    return () => clearTimeout(timer);
  }, [is, ms]);
  return is && lasts;
}
