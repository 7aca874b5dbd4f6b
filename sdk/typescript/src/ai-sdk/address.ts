import type { Http } from "../http.js";

/** Address of a route of the server's API for the AI SDK. */
export function addressOf(http: Http, ...path: readonly string[]): string {
  return http.url(path, {}, "ai");
}
