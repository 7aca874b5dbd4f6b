import { expect } from "vitest";

/** The error with which a promise rejects; the test fails if it resolves. */
export const caught = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => expect.unreachable(),
    (error: unknown) => error,
  );
