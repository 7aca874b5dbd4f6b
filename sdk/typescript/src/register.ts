/**
 * Types of an application, which it sets once for all of its code:
 *
 * ```ts
 * declare module "threadline" {
 *   interface Register {
 *     state: { parcel: "found" | "lost" };
 *     metadata: { plan?: string };
 *     customEvents: { progress: { percent: number } };
 *   }
 * }
 * ```
 *
 * `state` is the state of threads, `metadata` that of their records, and `customEvents` has the values of CUSTOM events by their
 * names. Nothing is checked at run time.
 */
export interface Register {}

type Registered<Name extends string, Default> = Register extends { readonly [N in Name]: infer Type } ? Type : Default;

/** The state of a thread: `unknown`, unless the application registers its type. */
export type State = Registered<"state", unknown>;

/** The metadata of a thread: any members, unless the application registers its type. */
export type ThreadMetadata = Registered<"metadata", Readonly<Record<string, unknown>>>;

/** Values of CUSTOM events by their names: any, unless the application registers them. */
export type CustomEvents = Registered<"customEvents", Readonly<Record<string, unknown>>>;
