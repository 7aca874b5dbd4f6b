import { expect, test } from "vitest";
import { changes, MOST_CHANGES } from "../../src/inspector/state/diff.ts";

test("equal values have no changes", () => {
  const state = { a: [1, { b: null }], c: "x" };
  expect(changes(state, state)).toEqual([]);
  expect(changes(state, structuredClone(state))).toEqual([]);
});

test("members are added, removed and changed in place", () => {
  const before = { a: 1, list: [1, 2, 3], gone: { x: 1 }, deep: { "x/y": { "~": 1 } } };
  const after = { a: "1", list: [1, 9], deep: { "x/y": { "~": 2 } }, made: null };
  expect(changes(before, after)).toEqual([
    { kind: "changed", path: "/a", before: 1, after: "1" },
    { kind: "changed", path: "/list/1", before: 2, after: 9 },
    { kind: "removed", path: "/list/2", before: 3 },
    { kind: "changed", path: "/deep/x~1y/~0", before: 1, after: 2 },
    { kind: "added", path: "/made", after: null },
    { kind: "removed", path: "/gone", before: { x: 1 } },
  ]);
});

test("a value that changes its type is changed as a whole", () => {
  expect(changes([1], { 0: 1 })).toEqual([{ kind: "changed", path: "", before: [1], after: { 0: 1 } }]);
  expect(changes({ a: null }, { a: {} })).toEqual([{ kind: "changed", path: "/a", before: null, after: {} }]);
});

test("a name of Object.prototype is a name like others", () => {
  const before = JSON.parse('{"__proto__": 1}') as unknown;
  expect(changes(before, {})).toEqual([{ kind: "removed", path: "/__proto__", before: 1 }]);
  expect(changes({}, { constructor: 1 })).toEqual([{ kind: "added", path: "/constructor", after: 1 }]);
});

test("the search for changes stops one after the listed number", () => {
  const many = Object.fromEntries(Array.from({ length: 5_000 }, (_, at) => [`k${at}`, at]));
  expect(changes({}, many)).toHaveLength(MOST_CHANGES + 1);
});
