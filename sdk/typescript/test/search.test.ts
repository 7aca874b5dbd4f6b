import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { isProblem, Threadline } from "../src/index.js";
import { isFound, trimmed } from "../src/search.js";
import { Server } from "./harness/server.js";

interface Case {
  readonly name: string;
  readonly search: string;
  readonly found: boolean;
}

// The server's own tests read the same table.
const table = new URL("../../../tests/shared/search.json", import.meta.url);
const cases = JSON.parse(readFileSync(table, "utf8")) as Case[];

let server: Server;
beforeAll(async () => {
  server = await Server.start();
});
afterAll(() => server?.end());

test("names are found as the table says", () => {
  expect(cases.length).toBeGreaterThan(20);
  for (const { name, search, found } of cases) {
    expect(isFound(name, search), JSON.stringify({ name, search })).toBe(found);
  }
  expect(isFound(null, "n")).toBe(false);
});

test("the server finds the same, whatever is searched for in whatever name", async () => {
  const client = new Threadline({ url: server.url });
  // A name of the server has no U+0000.
  const names = new Set(cases.map(({ name }) => name.replaceAll("\0", "")));
  const threads = await Promise.all([...names].map((name) => client.threads.create({ name })));
  for (const search of new Set(cases.map(({ search }) => search))) {
    const page = await client.threads.list({ search, limit: 500 });
    expect(page.nextCursor).toBeNull();
    const expected = threads.filter(({ name }) => isFound(name, search));
    expect(page.threads.map(({ name }) => name).sort(), JSON.stringify(search)).toEqual(
      expected.map(({ name }) => name).sort(),
    );
  }
});

test("white space alone is no search, and what is longer than a name none either", async () => {
  const client = new Threadline({ url: server.url });
  for (const search of ["", " ", "\t\u00a0\u0085\u2003", "ä".repeat(513)]) {
    const refused = await client.threads.list({ search }).catch((error: unknown) => error);
    expect(isProblem(refused, "invalid-request"), JSON.stringify(search)).toBe(true);
  }
  expect(trimmed(" \t\u00a0\u0085\u2003")).toBe("");
  expect(trimmed("\ufeff a ")).toBe("\ufeff a");
});

test("pages of what is found are those of the list", async () => {
  const user = new Threadline({ url: server.url, user: "pages" });
  for (const name of ["Äpfel 1", "Birnen", "äpfel 2", "ÄPFEL 3", "Kirschen"]) await user.threads.create({ name });
  const seen: (string | null)[] = [];
  let cursor: string | undefined;
  do {
    const page = await user.threads.list({ search: "äpfel", limit: 2, order: "created", ...(cursor && { cursor }) });
    expect(page.threads.length).toBeLessThanOrEqual(2);
    seen.push(...page.threads.map(({ name }) => name));
    cursor = page.nextCursor ?? undefined;
  } while (cursor);
  expect(seen).toEqual(["Äpfel 1", "äpfel 2", "ÄPFEL 3"]);
});
