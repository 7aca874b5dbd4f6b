import { isProblem, ThreadlineError } from "threadline";

/** What went wrong, for a person. */
export function messageOf(error: unknown): string {
  if (isProblem(error, "run-active")) return "A run is under way in this thread. Wait for its end, or stop it.";
  if (error instanceof ThreadlineError || error instanceof Error) return error.message;
  return String(error);
}
