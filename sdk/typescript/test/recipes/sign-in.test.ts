// The recipe of users who sign in, with Better Auth as published: its backend in this process, its client in Chromium.

import * as betterAuth from "better-auth";
import * as memory from "better-auth/adapters/memory";
import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest";
import type { Threadline } from "../../src/index.js";
import { read } from "../harness/documents.js";
import { evaluate, recipe, scriptOf } from "../harness/recipes.js";
import { Server } from "../harness/server.js";
import { type Backend, Site } from "./site.js";

/** What the client of the recipe exports, as the page of the test has it. */
interface Client {
  readonly threadline: Threadline;
  signOut(): Promise<void>;
}
declare global {
  var app: Client;
  /** Types of the items that a subscription of the page has received. */
  var items: string[];
}

const SCOPES = /--scopes ([\w,]+)/.exec(read("docs/recipes.md"))![1]!;
let server: Server;
let site: Site;
/** Requests for a token, by their status. */
let tokens: number[] = [];

beforeAll(async () => {
  [server, site] = await Promise.all([Server.start({ apiKey: "operators-secret-key-0123456789" }), Site.start()]);
  vi.stubEnv("APP_URL", site.url);
  vi.stubEnv("AUTH_SECRET", "secret of the sessions of this test, 0123456789");
  vi.stubEnv("THREADLINE_URL", server.url);
  vi.stubEnv("BACKEND_KEY", await server.cli("keys", "create", "app", "--scopes", SCOPES));
  const files = recipe("Users who sign in");
  const given = { "better-auth": betterAuth, "better-auth/adapters/memory": memory };
  const { handle } = await evaluate<{ handle: Backend }>(files, 'export { handle } from "./server"', given);
  site.backend = async (request) => {
    const answer = await handle(request);
    if (request.url.endsWith("/api/threadline-token")) tokens.push(answer.status);
    return answer;
  };
  const here = new Map([["client.ts", files.get("client.ts")!.replace("http://localhost:7420", server.url)]]);
  site.script = await scriptOf(here, 'import * as client from "./client"; globalThis.app = client;');
});
afterEach(async () => {
  await site?.leave();
  tokens = [];
});
afterAll(async () => {
  vi.unstubAllEnvs();
  await site?.end();
  await server?.end();
});

/** Opens a page, and signs a user in, who is registered before. */
async function signedIn(name: string, how: "sign-up" | "sign-in" = "sign-up"): Promise<Page> {
  const page = await site.open();
  const status = await page.evaluate(
    async ([name, how]) => {
      const body = JSON.stringify({ name, email: `${name}@example.com`, password: "correct horse battery" });
      const headers = { "Content-Type": "application/json" };
      return (await fetch(`/api/auth/${how}/email`, { method: "POST", headers, body })).status;
    },
    [name, how] as const,
  );
  expect(status).toBe(200);
  await page.waitForFunction(() => "app" in globalThis);
  return page;
}

const threads = (page: Page) =>
  page.evaluate(async () => (await app.threadline.threads.list()).threads.map(({ name }) => name));

test("each user has threads of their own, and the browser holds only its token", async () => {
  const [ann, bob] = [await signedIn("ann"), await signedIn("bob")];
  const { threadId } = await ann.evaluate(() => app.threadline.threads.create({ name: "Ann's" }));
  expect(await threads(ann)).toEqual(["Ann's"]);
  expect(await threads(bob)).toEqual([]);
  const refusal = await bob.evaluate(
    (threadId) => app.threadline.thread(threadId).get().then(String, String),
    threadId,
  );
  expect(refusal).toContain("thread-not-found");
  // One token each, for all of its requests.
  expect(tokens).toEqual([200, 200]);
});

test("a token that ends is replaced while the session goes on", async () => {
  const page = await signedIn("carol");
  await page.evaluate(() => app.threadline.threads.create({ name: "First" }));
  expect(tokens).toEqual([200]);
  await server.cli("users", "sign-out", await userOf(page));
  expect(await threads(page)).toEqual(["First"]);
  expect(tokens).toEqual([200, 200]);
});

test("a page without a session gets no token, and is sent to the sign-in", async () => {
  const page = await site.open();
  await page.waitForFunction(() => "app" in globalThis);
  await Promise.all([
    page.waitForURL("**/sign-in"),
    page.evaluate(() => void app.threadline.threads.list().catch(() => {})),
  ]);
  expect(new Set(tokens)).toEqual(new Set([401]));
});

test("a sign-out ends the tokens of all devices: one without a session leaves, and one with a session goes on", async () => {
  const [page, phone] = [await signedIn("dora"), await signedIn("dora", "sign-in")];
  const { threadId } = await page.evaluate(() => app.threadline.threads.create({ name: "Dora's" }));
  for (const one of [page, phone]) {
    await one.evaluate((threadId) => {
      globalThis.items = [];
      const follow = async () => {
        for await (const { type } of app.threadline.thread(threadId).subscribe()) globalThis.items.push(type);
      };
      // The sign-out closes the client.
      follow().catch(() => {});
    }, threadId);
    await one.waitForFunction(() => globalThis.items.includes("caughtUp"));
  }
  expect(tokens).toEqual([200, 200]);
  const token = await page.evaluate(async () => {
    const answer = await fetch("/api/threadline-token", { method: "POST" });
    return ((await answer.json()) as { token: string }).token;
  });
  expect(await server.request("GET", "/v1/threads", { token })).toMatchObject({ threads: [{ threadId }] });

  await Promise.all([page.waitForURL("**/sign-in"), page.evaluate(() => void app.signOut())]);
  await expect(server.request("GET", "/v1/threads", { token })).rejects.toThrow(/401/);
  expect(await page.evaluate(async () => (await fetch("/api/threadline-token", { method: "POST" })).status)).toBe(401);
  // The stream of the other device goes on with another token.
  await server.request("PUT", `/v1/threads/${threadId}/runs/news`, {
    user: await userOf(phone),
    body: [{ type: "A" }],
  });
  await phone.waitForFunction(() => globalThis.items.includes("events"));
});

/** The id of the user of a page, as the sessions have it. */
function userOf(page: Page): Promise<string> {
  return page.evaluate(async () => {
    const session = (await (await fetch("/api/auth/get-session")).json()) as { user: { id: string } };
    return session.user.id;
  });
}
