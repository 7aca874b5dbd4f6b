/** What a JSON Web Token says, unverified: for a person to read, the server decides. Empty if it is none. */
export function claimsOf(token: string): Readonly<Record<string, unknown>> {
  try {
    const part = token.split(".")[1]!.replaceAll("-", "+").replaceAll("_", "/");
    const bytes = Uint8Array.from(atob(part), (character) => character.charCodeAt(0));
    const claims: unknown = JSON.parse(new TextDecoder().decode(bytes));
    return typeof claims === "object" && claims !== null ? (claims as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}
