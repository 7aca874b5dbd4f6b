import { claimsOf } from "../claims.ts";
import type { Credentials } from "../session.ts";

/** The user, as far as the credentials name one: for display only, the server decides. */
export function userOf({ apiKey, token, user }: Credentials): string {
  if (token !== undefined) {
    const { sub } = claimsOf(token);
    return typeof sub === "string" ? sub : "Signed in";
  }
  // Without credentials, a server in development mode treats every client as this user.
  return user ?? (apiKey === undefined ? "dev" : "API key");
}
