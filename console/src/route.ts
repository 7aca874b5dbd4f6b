// Where one is, in the hash of the address: a reload, a bookmark and a link come back to it, and it meets no path of the API.
//
//   #/                                   the list
//   #/new?agent=ID                       a thread that is about to begin
//   #/threads/ID                         a conversation
//   #/threads/ID?panel=events&at=12      with the inspector beside it; `at`: as the thread was after this seq
//   #/threads/ID?panel=events&event=7    with an event opened

import { useSyncExternalStore } from "react";

export const PANELS = ["events", "state", "runs", "live"] as const;
/** A page of the inspector. */
export type Panel = (typeof PANELS)[number];

export type Route =
  | { readonly name: "home" }
  | { readonly name: "new"; readonly agentId?: string }
  | {
      readonly name: "thread";
      readonly threadId: string;
      readonly panel?: Panel | undefined;
      readonly at?: number | undefined;
      readonly event?: number | undefined;
    };

const HOME: Route = { name: "home" };

export function parse(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#/, "").split("?", 2);
  const params = new URLSearchParams(query);
  const [, place, id] = path.split("/", 3);
  if (place === "new") {
    const agentId = params.get("agent");
    return agentId ? { name: "new", agentId } : { name: "new" };
  }
  const threadId = place === "threads" && id ? decoded(id) : "";
  if (!threadId) return HOME;
  const panel = PANELS.find((each) => each === params.get("panel"));
  return { name: "thread", threadId, panel, at: seq(params.get("at")), event: seq(params.get("event")) };
}

/** The address of a place. */
export function href(route: Route): string {
  if (route.name === "home") return "#/";
  const params = new URLSearchParams();
  if (route.name === "new") {
    if (route.agentId !== undefined) params.set("agent", route.agentId);
    return withQuery("#/new", params);
  }
  if (route.panel !== undefined) params.set("panel", route.panel);
  if (route.at !== undefined) params.set("at", String(route.at));
  if (route.event !== undefined) params.set("event", String(route.event));
  return withQuery(`#/threads/${encodeURIComponent(route.threadId)}`, params);
}

/** Goes to a place; with `replace` the browser's Back does not come back to this one. */
export function go(route: Route, { replace = false } = {}): void {
  const target = href(route);
  if (target === (location.hash || "#/")) return;
  if (!replace) {
    location.hash = target;
    return;
  }
  history.replaceState(null, "", target);
  dispatchEvent(new HashChangeEvent("hashchange"));
}

export function useRoute(): Route {
  return useSyncExternalStore(subscribe, current);
}

let last: { hash: string; route: Route } | undefined;

/** The same object as long as the place is the same. */
function current(): Route {
  const { hash } = location;
  if (last?.hash !== hash) last = { hash, route: parse(hash) };
  return last.route;
}

function subscribe(listener: () => void): () => void {
  addEventListener("hashchange", listener);
  return () => removeEventListener("hashchange", listener);
}

function withQuery(path: string, params: URLSearchParams): string {
  const query = params.toString();
  return query ? `${path}?${query}` : path;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return "";
  }
}

function seq(text: string | null): number | undefined {
  return text !== null && /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}
