import { ConnectionError, ThreadlineError } from "../errors.js";
import type { Failing } from "./machine.js";

/** Classifies an error of a connection. */
export function failing(cause: unknown): Failing {
  const error =
    cause instanceof ThreadlineError ? cause : new ConnectionError(`the connection broke (${cause})`, { cause });
  return { name: error.retryable ? "lost" : "refused", error };
}
