import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

const slugs = (text: string, pattern: RegExp): string[] => [...text.matchAll(pattern)].map((match) => match[1]!).sort();

test("the known problem types are exactly those of the server", () => {
  const server = readFileSync(new URL("../../../../crates/http/src/problem.rs", import.meta.url), "utf8");
  const ours = readFileSync(new URL("../../src/problems.ts", import.meta.url), "utf8");
  const named = slugs(server, /^ {4}\w+ = "([a-z-]+)", [A-Z_]+,/gm);
  expect(named.length).toBeGreaterThan(30);
  expect(slugs(ours, /^ {2}\| "([a-z-]+)"/gm)).toEqual(named);
});
