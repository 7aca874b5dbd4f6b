import { claimsOf } from "../claims.ts";
import type { Credentials } from "../session.ts";

/** Who one is, as far as that can be told: for a person to read, the server decides. */
export function userOf({ apiKey, token, user }: Credentials): string {
  if (token !== undefined) {
    const { sub } = claimsOf(token);
    return typeof sub === "string" ? sub : "Signed in";
  }
  // Without any credentials a server in development mode takes everybody for this user.
  return user ?? (apiKey === undefined ? "dev" : "API key");
}
