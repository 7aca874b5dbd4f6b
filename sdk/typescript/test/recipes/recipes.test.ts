// The code of docs/recipes.md: its types, its files of examples, and the recipes that need no page.

import { existsSync } from "node:fs";
import * as vitest from "vitest";
import { BINARY } from "../harness/server.js";
import { complaints, read, root } from "../harness/documents.js";
import { evaluate, headings, recipe } from "../harness/recipes.js";

const { describe, expect, test } = vitest;

/** The recipe whose files are those of an example. */
const SHOWN = "Next.js and the AI SDK";
const EXAMPLE = "examples/nextjs/";
/** Recipes whose blocks are type-checked and run, by the tests beside this one. */
const RUN = ["Users who sign in", "An optimistic chat", "assistant-ui", "Tests of your application"];

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

test("the blocks match the types of the packages", { timeout: 240_000 }, () => {
  const files = RUN.flatMap((heading) =>
    [...recipe(heading)].map(([name, code]) => [heading.replaceAll(" ", "-"), name, code] as const),
  );
  // The blocks of a recipe import each other.
  const pieces = files.map(([of, name, code]) => {
    const local = code.replace(/ from "\.\/(\w+)"/g, (_, module: string) => ` from "./${of}-${module}"`);
    return [`${of}-${name}`, `${local}\nexport {};`] as const;
  });
  // Errors are detected: each block fails with a misspelt import.
  const wrong = pieces.map(([name, code]) => [
    `wrong-${name}`,
    code.replace(/(import (?:type )?\{ *\w+)/, "$1Misspelt"),
  ]);
  const found = complaints(Object.fromEntries([...pieces, ...(wrong as [string, string][])]));
  expect(found.filter((line) => !line.startsWith("wrong-"))).toEqual([]);
  const noticed = new Set(found.map((line) => line.split(":")[0]));
  expect([...noticed].sort()).toEqual(wrong.map(([name]) => name).sort());
});

// The tests of the recipe become tests of this file.
process.env["THREADLINE"] ??= BINARY;
describe("the tests of an application", async () => {
  await evaluate(recipe("Tests of your application"), 'import "./chat.test"', { vitest });
});
