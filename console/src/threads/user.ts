import type { Credentials } from "../session.ts";

/** Who one is, as far as that can be told: for a person to read, the server decides. */
export function userOf({ apiKey, token, user }: Credentials): string {
  if (token !== undefined) return subjectOf(token) ?? "Signed in";
  // Without any credentials a server in development mode takes everybody for this user.
  return user ?? (apiKey === undefined ? "dev" : "API key");
}

/** The `sub` of a JSON Web Token. */
function subjectOf(token: string): string | undefined {
  try {
    const claims = token.split(".")[1]!.replaceAll("-", "+").replaceAll("_", "/");
    const bytes = Uint8Array.from(atob(claims), (character) => character.charCodeAt(0));
    const { sub } = JSON.parse(new TextDecoder().decode(bytes)) as { sub?: unknown };
    return typeof sub === "string" ? sub : undefined;
  } catch {
    return undefined;
  }
}
