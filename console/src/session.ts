// The caller, and the server. The console has no rights of its own: it can do what its key or token permits.

import { Threadline } from "threadline";
import { serverClock } from "./clock.ts";
import { Rights, setRights } from "./rights.ts";

export interface Credentials {
  /** An API key, or a user's token. Neither in development mode. */
  readonly apiKey?: string;
  readonly token?: string;
  /** The user for whom an API key acts; in development any user. */
  readonly user?: string;
  /** For the operator's key. */
  readonly project?: string;
}

const KEY = "threadline.session";
/** Prefix of the storage keys of drafts. */
export const DRAFTS = "threadline.draft.";

/** The stored credentials: of this tab, or of this device if the user chose that. */
export function savedCredentials(): Credentials {
  const text = sessionStorage.getItem(KEY) ?? localStorage.getItem(KEY);
  try {
    return (JSON.parse(text ?? "{}") as Credentials | null) ?? {};
  } catch {
    return {};
  }
}

export function saveCredentials(credentials: Credentials, { remember }: { remember: boolean }): void {
  const text = JSON.stringify(credentials);
  sessionStorage.setItem(KEY, text);
  if (remember) localStorage.setItem(KEY, text);
  else localStorage.removeItem(KEY);
}

export function isRemembered(): boolean {
  return localStorage.getItem(KEY) !== null;
}

/** Forgets refused credentials. Drafts stay, for a user who signs in again. */
export function dropCredentials(): void {
  sessionStorage.removeItem(KEY);
  localStorage.removeItem(KEY);
}

/** Calls `listener` when another tab forgets the credentials of this one; returns a function that unsubscribes. */
export function onForgotten(credentials: Credentials, listener: () => void): () => void {
  const changed = ({ key, oldValue, newValue }: StorageEvent) => {
    if (key === KEY && newValue === null && oldValue === JSON.stringify(credentials)) listener();
  };
  addEventListener("storage", changed);
  return () => removeEventListener("storage", changed);
}

/** Also what was typed with them. */
export function forgetCredentials(): void {
  dropCredentials();
  for (const key of Object.keys(sessionStorage)) if (key.startsWith(DRAFTS)) sessionStorage.removeItem(key);
}

/** The server's address: where the page came from, also behind a proxy that puts it under a path. */
export function serverUrl(): string {
  return SERVER ?? new URL(".", location.href).href.replace(/[?#].*$/, "");
}

/** Of a user's id, in bytes: the server takes no longer one. */
const MAX_ID = 256;

/** Throws if that can be no user. */
export function checkUser(user = ""): void {
  const { length } = new TextEncoder().encode(user);
  if (length > MAX_ID) throw new Error(`The user is too long: at most ${MAX_ID} bytes, not ${length}.`);
}

/** Throws a `ConfigError` if what was given cannot be sent. */
export function connect({ apiKey, token, user, project }: Credentials): Threadline {
  const rights = new Rights(token);
  const client = new Threadline({
    url: serverUrl(),
    fetch: rights.learning(serverClock.hearing((input, init) => fetch(input, init))),
    ...(apiKey && { apiKey }),
    ...(token && { token }),
    ...(user && { user }),
    ...(project && { project }),
    // A user is waiting: a banner shows that the server is unreachable, and a request fails soon enough to wait for.
    retries: { reads: 10_000, writes: 10_000, producers: 10_000 },
  });
  setRights(client, rights);
  return client;
}
