"use client";

import { useMemo, useSyncExternalStore } from "react";
import { type AgentsSnapshot, EMPTY_AGENTS } from "./agents.js";
import { useThreadline } from "./context.js";
import { AGENTS } from "./kinds.js";
import { openStore, sharedStore } from "./shared.js";

/** Returns the agents to which runs can be delegated. They are read when the first component shows them, and then kept. */
export function useAgents(): AgentsSnapshot {
  const client = useThreadline();
  const binding = useMemo(
    () => ({
      subscribe: (listener: () => void) => sharedStore(client, AGENTS, null).subscribe(listener),
      getSnapshot: () => openStore(client, AGENTS, null)?.getSnapshot() ?? EMPTY_AGENTS,
    }),
    [client],
  );
  return useSyncExternalStore(binding.subscribe, binding.getSnapshot, () => EMPTY_AGENTS);
}
