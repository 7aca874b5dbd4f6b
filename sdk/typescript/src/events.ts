// Events and messages as readers get them, and as producers write them.

import type { AgUiEvent, Message } from "./generated/agui.js";

/**
 * An event that AG-UI does not define. Types of an application's own have a dot in their names, so that a misspelled type of
 * AG-UI is no such type. Of a log, it may also be an event of another version of AG-UI: `const type: string = event.type`.
 */
export interface UnknownEvent {
  readonly type: `${string}.${string}`;
  readonly [member: string]: unknown;
}

/** A CUSTOM event of the server itself. */
export type ServerEvent = Omit<Extract<AgUiEvent, { readonly type: "CUSTOM" }>, "name" | "value"> & {
  readonly type: "CUSTOM";
  readonly name: `threadline.${string}`;
  readonly value: unknown;
};

/**
 * An event of a log, as it was appended. Its members are as trustworthy as its producer: the server stores events as they are sent,
 * unless validation is on.
 */
export type ThreadEvent = AgUiEvent | ServerEvent | UnknownEvent;

/** An event to append. */
export type NewEvent = AgUiEvent | UnknownEvent | Pick<UnknownEvent, "type">;

/** A message to send or save. One without an id is assigned one. */
export type NewMessage = WithoutId<Message>;

type WithoutId<M extends Message> = M extends Message ? Omit<M, "id"> & { readonly id?: string } : never;

/** A change of an object: members to merge into it, null for those to remove (RFC 7396). */
export type MergePatch<T> = T extends readonly unknown[]
  ? T
  : T extends object
    ? { readonly [Name in keyof T]?: MergePatch<T[Name]> | null }
    : T;
