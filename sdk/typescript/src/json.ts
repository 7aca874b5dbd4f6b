import { ConfigError, messageOf } from "./errors.js";

/** JSON text of a value; throws a `ConfigError` if the value cannot be serialized. */
export function toJson(value: unknown): string {
  try {
    return JSON.stringify(value);
  } catch (error) {
    throw new ConfigError(`this cannot be sent as JSON (${messageOf(error)})`);
  }
}
