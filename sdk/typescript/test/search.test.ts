import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { isProblem, Threadline } from "../src/index.js";
import { isFound, trimmed } from "../src/search.js";
import { server, useServer } from "./harness/served.js";

interface Case {
  readonly name: string;
  readonly search: string;
  readonly found: boolean;
}

// The server's own tests read the same table.
const table = new URL("../../../tests/shared/search.json", import.meta.url);
const cases = JSON.parse(readFileSync(table, "utf8")) as Case[];

useServer();

test("names match as specified in the table", () => {
  expect(cases.length).toBeGreaterThan(80);
  for (const { name, search, found } of cases) {
    expect(isFound(name, search), JSON.stringify({ name, search })).toBe(found);
  }
  expect(isFound(null, "n")).toBe(false);
});

test("the server finds the same for any text in any name", async () => {
  const client = new Threadline({ url: server.url });
  // A name on the server contains no U+0000.
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

// Letters and marks of many scripts in random order: composed, decomposed, and in other forms.
const ALPHABET = [
  ..."aeioAEIO sSßẞ.éÉñøØłŁđıİIæﬁ２ｃＣ²½",
  ..."\u0301\u0308\u0327\u0338\u0345\u1ab0\ufe0f\u20e3\u200d\u00a0",
  ..."σςΣάΆᾳйЙё\u0306",
  ..."שׁ\ufb2a\u05b8أا\u0654\u064f\u0651ﻻ",
  ..."かが\u3099\u309aｶﾞ하한\u1112\u1161\u11ab",
  ..."कि\u093cक़தமிน้ำ\u0e4d\u0e32K\u212bǄ≠=🦀𝐁",
];

test("the server finds the same in names of random letters and marks", async () => {
  const seed = Number(process.env.THREADLINE_SEED ?? Math.floor(Math.random() * 0x7fff_ffff));
  const random = generator(seed);
  const word = (length: number) => Array.from({ length }, () => ALPHABET[random(ALPHABET.length)]).join("");
  const client = new Threadline({ url: server.url, user: "arbitrary" });
  const names = Array.from({ length: 200 }, () => word(1 + random(12)));
  await Promise.all(names.map((name) => client.threads.create({ name })));
  for (let n = 0; n < 100; n += 1) {
    const search = n % 2 === 0 ? word(1 + random(2)) : [...names[n]!].slice(random(3), 4 + random(4)).join("");
    if (trimmed(search) === "") continue;
    const page = await client.threads.list({ search, limit: 500 });
    const expected = names.filter((name) => isFound(name, search));
    expect(page.threads.map(({ name }) => name).sort(), JSON.stringify({ search, seed })).toEqual(expected.sort());
  }
});

/** Numbers below a bound, reproducible from a seed (mulberry32). */
function generator(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

test("a search for white space alone, or for a text longer than a name, is refused", async () => {
  const client = new Threadline({ url: server.url });
  for (const search of ["", " ", "\t\u00a0\u0085\u2003", "ä".repeat(513)]) {
    const refused = await client.threads.list({ search }).catch((error: unknown) => error);
    expect(isProblem(refused, "invalid-request"), JSON.stringify(search)).toBe(true);
  }
  expect(trimmed(" \t\u00a0\u0085\u2003")).toBe("");
  expect(trimmed("\ufeff a ")).toBe("\ufeff a");
});

test("pages of a search equal those of the list", async () => {
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
