// What one may do here. A token says so itself; of an API key it shows when the server refuses to write with it. Nothing is decided
// here: the server decides. This spares people buttons that lead to a refusal.

import { useSyncExternalStore } from "react";
import type { Threadline } from "threadline";
import { useThreadline } from "threadline/react";
import { claimsOf } from "./claims.ts";

/** Why something cannot be done. */
export const READ_ONLY = "You may only read: your key or token does not allow changes.";

/** The server's names. Scopes of others in a token say nothing about Threadline. */
const SCOPES = ["read", "chat", "approve", "produce", "agents", "tokens", "admin", "metrics"];

/** What a key or token may do. */
export class Rights {
  #mayWrite: boolean;
  readonly #listeners = new Set<() => void>();

  constructor(token: string | undefined) {
    this.#mayWrite = token === undefined || mayWriteWith(token);
  }

  get mayWrite(): boolean {
    return this.#mayWrite;
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  /** A `fetch` that learns from what is refused. */
  learning(send: typeof fetch): typeof fetch {
    return async (input, init) => {
      const response = await send(input, init);
      if (response.status === 403) await this.#refused(response.clone());
      return response;
    };
  }

  async #refused(response: Response): Promise<void> {
    const problem: unknown = await response.json().catch(() => null);
    if ((problem as { scope?: unknown } | null)?.scope !== "chat" || !this.#mayWrite) return;
    this.#mayWrite = false;
    for (const listener of this.#listeners) listener();
  }
}

function mayWriteWith(token: string): boolean {
  const { scope } = claimsOf(token);
  const named = typeof scope === "string" ? scope.split(/\s+/).filter((name) => SCOPES.includes(name)) : [];
  return named.length === 0 || named.includes("chat");
}

const known = new WeakMap<Threadline, Rights>();

/** Whose rights a client has. */
export function setRights(client: Threadline, rights: Rights): void {
  known.set(client, rights);
}

const ALL = new Rights(undefined);

/** Whether one may change anything. */
export function useMayWrite(): boolean {
  const rights = known.get(useThreadline()) ?? ALL;
  return useSyncExternalStore(rights.subscribe, () => rights.mayWrite);
}
