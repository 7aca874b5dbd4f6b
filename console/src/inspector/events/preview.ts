import type { AnyEvent } from "../../untrusted.ts";

/** Characters of a preview. */
const MOST = 160;

/** What an event says, in a line. */
export function preview(event: AnyEvent): string {
  return line(said(event));
}

/** Text in one line, what cannot be seen made visible, not longer than fits. */
export function line(text: string): string {
  const cut = text.length > MOST ? `${text.slice(0, MOST).replace(/[\uD800-\uDBFF]$/, "")}…` : text;
  return cut
    .replace(/\r\n|[\n\r]/g, "↵")
    .replace(/\t/g, "⇥")
    .replace(/\p{Cc}/gu, "␦");
}

function said(event: AnyEvent): string {
  const { type, delta, content, message, snapshot, name, toolCallName, messages, code, stepName, value, role } = event;
  if (typeof delta === "string") return quoted(delta);
  switch (type) {
    case "STATE_DELTA":
      return operations(delta);
    case "ACTIVITY_DELTA":
      return operations(event.patch);
    case "STATE_SNAPSHOT":
      return json(snapshot);
    case "MESSAGES_SNAPSHOT":
      return Array.isArray(messages) ? `${messages.length} ${messages.length === 1 ? "message" : "messages"}` : "";
    case "RUN_ERROR":
      return [code, message].filter((each) => typeof each === "string").join(": ");
    case "RUN_STARTED": {
      const { input } = event;
      const given = isObject(input) && Array.isArray(input.messages) ? (input.messages.at(-1) as unknown) : undefined;
      return isObject(given) && typeof given.content === "string" ? quoted(given.content) : "";
    }
    case "RUN_FINISHED":
      return event.outcome === undefined && event.result === undefined ? "" : json(event.outcome ?? event.result);
    case "TOOL_CALL_START":
      return typeof toolCallName === "string" ? toolCallName : "";
    case "TOOL_CALL_RESULT":
      return typeof content === "string" ? quoted(content) : json(content);
    case "TEXT_MESSAGE_START":
    case "REASONING_MESSAGE_START":
      return typeof role === "string" ? role : "";
    case "STEP_STARTED":
    case "STEP_FINISHED":
      return typeof stepName === "string" ? stepName : "";
    case "CUSTOM":
      return `${typeof name === "string" ? name : ""} ${json(value)}`.trim();
    default:
      return rest(event);
  }
}

function quoted(text: string): string {
  return `“${text.slice(0, 2 * MOST)}”`;
}

/** What a patch does, as `replace /count, add /todos/-`. */
function operations(patch: unknown): string {
  if (!Array.isArray(patch)) return json(patch);
  const said = patch.slice(0, 5).map((each: unknown) => (isObject(each) ? `${word(each.op)} ${word(each.path)}` : "?"));
  return patch.length > 5 ? `${said.join(", ")} and ${patch.length - 5} more` : said.join(", ");
}

/** All members that do not say what it is about anyway. */
function rest(event: AnyEvent): string {
  const { type: _type, ...members } = event;
  const names = Object.keys(members);
  const [only] = names;
  // The id that a start and an end have, and nothing else.
  if (names.length === 1 && only && /Id$/.test(only)) return word(members[only]);
  return names.length === 0 ? "" : json(members);
}

/** A text as it is; what should have been one as JSON. */
function word(value: unknown): string {
  return typeof value === "string" ? value : json(value);
}

/** The beginning of a value's JSON. */
function json(value: unknown): string {
  return value === undefined ? "" : JSON.stringify(value).slice(0, 2 * MOST);
}

function isObject(value: unknown): value is { readonly [name: string]: unknown } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
