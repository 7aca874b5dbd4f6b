import { ConfigError, messageOf } from "./errors.js";

/** JSON text; a `ConfigError` if there is none. */
export function toJson(value: unknown): string {
  try {
    return JSON.stringify(value);
  } catch (error) {
    throw new ConfigError(`this cannot be sent as JSON (${messageOf(error)})`);
  }
}
