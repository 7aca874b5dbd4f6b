import { Threadline } from "threadline";

/** Address of Threadline, for this server and for browsers. */
export const THREADLINE_URL = process.env.THREADLINE_URL ?? "http://localhost:7420";

/** A client that acts as a user, so that it reads and writes only what the user may. */
export function clientOf(user: string): Threadline {
  return new Threadline({ url: THREADLINE_URL, apiKey: process.env.BACKEND_KEY!, user });
}
