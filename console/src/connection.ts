import { useCallback, useSyncExternalStore } from "react";
import type { ConnectionStatus } from "threadline";
import { useThreadline } from "threadline/react";

/** How the page is connected. */
export function useConnection(): ConnectionStatus {
  const client = useThreadline();
  const subscribe = useCallback((listener: () => void) => client.onStatus(listener), [client]);
  return useSyncExternalStore(subscribe, () => client.status);
}
