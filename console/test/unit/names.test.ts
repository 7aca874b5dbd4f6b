import { expect, test } from "vitest";
import { nameOf } from "../../src/threads/name.ts";
import { Rights } from "../../src/rights.ts";
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
  [{ token: token({ sub: "josé 😀" }), user: "another user" }, "josé 😀"],
  [{ token: token({ sub: 7 }) }, "Signed in"],
  [{ token: token(null) }, "Signed in"],
  [{ token: "a.b.c" }, "Signed in"],
  [{ token: "" }, "Signed in"],
])("with %j one is %j", (credentials, expected) => {
  expect(userOf(credentials)).toBe(expected);
});

test.each([
  [undefined, true],
  ["a.b.c", true],
  [token({ sub: "a" }), true],
  [token({ scope: "read chat" }), true],
  [token({ scope: "openid profile" }), true],
  [token({ scope: "openid read" }), false],
  [token({ scope: "read" }), false],
])("whether one may write with %j: %j", (given, expected) => {
  expect(new Rights(given).mayWrite).toBe(expected);
});

test("a refused write shows that a key has read access only", async () => {
  const rights = new Rights(undefined);
  let notified = 0;
  rights.subscribe(() => (notified += 1));
  const answers = [
    new Response("{}", { status: 403 }),
    Response.json({ scope: "admin" }, { status: 403 }),
    new Response("no JSON", { status: 403 }),
    Response.json({ scope: "chat" }, { status: 400 }),
  ];
  const ask = rights.learning(() => Promise.resolve(answers.shift()!));
  while (answers.length > 0) await ask("http://server/");
  expect([rights.mayWrite, notified]).toEqual([true, 0]);
  answers.push(Response.json({ scope: "chat", detail: "no" }, { status: 403 }));
  // The caller reads the same answer.
  expect(await (await ask("http://server/")).json()).toMatchObject({ detail: "no" });
  expect([rights.mayWrite, notified]).toEqual([false, 1]);
});
