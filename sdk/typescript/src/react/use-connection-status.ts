"use client";

import { useCallback, useSyncExternalStore } from "react";
import type { ConnectionStatus } from "../connection/status.js";
import { useThreadline } from "./context.js";

const IDLE: ConnectionStatus = { state: "idle" };

/** Returns the connection status of the client, live. It is `idle` on a server. */
export function useConnectionStatus(): ConnectionStatus {
  const client = useThreadline();
  const subscribe = useCallback((listener: () => void) => client.onStatus(listener), [client]);
  return useSyncExternalStore(
    subscribe,
    () => client.status,
    () => IDLE,
  );
}
