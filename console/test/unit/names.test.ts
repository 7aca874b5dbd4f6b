import { expect, test } from "vitest";
import { nameOf } from "../../src/threads/name.ts";
import { userOf } from "../../src/threads/user.ts";

test.each([
  [{ name: "Trips", threadId: "t", tail: 0 }, "Trips"],
  [{ name: null, threadId: "t", tail: 0 }, "New thread"],
  [{ name: "  ", threadId: "t", tail: 0 }, "New thread"],
  [{ name: null, threadId: "0123456789abc", tail: 3 }, "Thread 0123456789abc"],
  [{ name: null, threadId: "0123456789abcd", tail: 3 }, "Thread 0123456789ab…"],
])("%j is called %j", (thread, expected) => {
  expect(nameOf(thread)).toBe(expected);
});

function token(claims: unknown): string {
  return `e30.${Buffer.from(JSON.stringify(claims)).toString("base64url")}.c2ln`;
}

test.each([
  [{}, "dev"],
  [{ user: "maria" }, "maria"],
  [{ apiKey: "k" }, "API key"],
  [{ apiKey: "k", user: "maria" }, "maria"],
  [{ token: token({ sub: "josé 😀" }), user: "somebody else" }, "josé 😀"],
  [{ token: token({ sub: 7 }) }, "Signed in"],
  [{ token: token(null) }, "Signed in"],
  [{ token: "a.b.c" }, "Signed in"],
  [{ token: "" }, "Signed in"],
])("with %j one is %j", (credentials, expected) => {
  expect(userOf(credentials)).toBe(expected);
});
