import { createContext, useContext } from "react";
import type { Credentials } from "./session.ts";

/** The session, and functions that change it. */
export interface Session {
  readonly credentials: Credentials;
  /** Throws a `ConfigError`, and changes nothing, if what is given cannot be sent. */
  signIn(credentials: Credentials, remember: boolean): void;
  /** Continues as another user. */
  actAs(user: string): void;
  signOut(): void;
}

export const SessionContext = createContext<Session>({
  credentials: {},
  signIn: () => {},
  actAs: () => {},
  signOut: () => {},
});

export function useSession(): Session {
  return useContext(SessionContext);
}
