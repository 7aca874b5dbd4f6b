"use client";

import { Threadline } from "threadline";

let client: Threadline | undefined;

/** One client for all pages of the tab. On the server it renders, and makes no request. */
export function clientAt(url: string): Threadline {
  return (client ??= new Threadline({ url, token: requestToken }));
}

async function requestToken(): Promise<string> {
  const answer = await fetch("/api/token", { method: "POST" });
  if (!answer.ok) throw new Error("sign in again");
  return ((await answer.json()) as { token: string }).token;
}
