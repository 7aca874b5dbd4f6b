// The code of docs/recipes.md: its files of examples, and the recipe that needs no page. docs.test.ts checks the types.

import { existsSync } from "node:fs";
import * as vitest from "vitest";
import { BINARY } from "../harness/server.js";
import { read, root } from "../harness/documents.js";
import { evaluate, headings, recipe, RUN } from "../harness/recipes.js";

const { describe, expect, test } = vitest;

/** The recipe whose files are those of an example. */
const SHOWN = "Next.js and the AI SDK";
const EXAMPLE = "examples/nextjs/";

test("each recipe is known here, and in the table of the page", () => {
  expect(headings()).toEqual([SHOWN, ...RUN]);
  const linked = [...read("docs/recipes.md").matchAll(/^\| \[(.+?)\]\(#/gm)].map(([, title]) => title);
  expect(linked).toEqual(headings());
});

test("the blocks of the first recipe are files of the example", () => {
  const files = recipe(SHOWN);
  expect(files.size).toBe(3);
  for (const [name, code] of files) {
    expect(existsSync(root + EXAMPLE + name), name).toBe(true);
    expect(code).toBe(read(EXAMPLE + name));
  }
});

// The tests of the recipe become tests of this file.
process.env["THREADLINE"] ??= BINARY;
describe("the tests of an application", async () => {
  await evaluate(recipe("Tests of your application"), 'import "./chat.test"', { vitest });
});
