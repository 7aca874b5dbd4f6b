import { serverUrl } from "../session.ts";
import { useSession } from "../session-context.ts";
import type { Asker } from "./curl.ts";

/** The caller, as commands need it: without the credential itself. */
export function useAsker(): Asker {
  const { apiKey, token, user, project } = useSession().credentials;
  return { url: serverUrl(), credential: apiKey ? "key" : token ? "token" : null, user, project };
}
