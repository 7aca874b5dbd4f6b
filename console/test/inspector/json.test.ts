import { expect, test } from "vitest";
import { Random } from "../../../sdk/typescript/test/harness/random.js";
import { printed } from "../../src/inspector/json/print.ts";
import { jsonLines, MOST_STRING } from "../../src/inspector/json/tokens.ts";
import { eventOf } from "../../src/inspector/events/raw.ts";
import { firstOpen, treeRows } from "../../src/inspector/json/tree.ts";

function text(value: unknown): string {
  return jsonLines(JSON.stringify(value))
    .map(({ depth, tokens }) => "  ".repeat(depth) + tokens.map(({ text }) => text).join(""))
    .join("\n");
}

function made(random: Random, depth: number): unknown {
  const kind = depth === 0 ? random.below(5) : random.below(7);
  if (kind === 5) return random.list(4, () => made(random, depth - 1));
  if (kind === 6) return Object.fromEntries(random.list(4, (at) => [`${at}"\\n💬`, made(random, depth - 1)]));
  return [null, true, -1.5e300, 'a "word"\n\u202e\ud83d', ""][kind];
}

test("a value is printed as JSON.stringify prints it", () => {
  const random = new Random();
  for (let round = 0; round < 300; round += 1) {
    const value = made(random, 5);
    expect(text(value), `seed ${random.seed}`).toBe(JSON.stringify(value, null, 2));
  }
});

test("a value is printed up to the limit, and not further", () => {
  const random = new Random();
  for (let round = 0; round < 300; round += 1) {
    const value = made(random, 5);
    const whole = JSON.stringify(value);
    expect(printed(value, whole.length), `seed ${random.seed}`).toEqual({ json: whole, isCut: false });
    const most = random.below(whole.length);
    const { json, isCut } = printed(value, most);
    expect(isCut, `seed ${random.seed}`).toBe(true);
    // Half of a pair is written as an escape.
    if (!whole.includes("\\ud")) expect(json, `seed ${random.seed}`).toBe(whole.slice(0, most));
  }
});

test("a text that is cut in the middle shows its beginning", () => {
  const lines = (json: string) => jsonLines(json).map(({ tokens }) => tokens.map(({ text }) => text).join(""));
  expect(lines('{"a":"one, {two')).toEqual(["{", '"a": "one, {two']);
  expect(lines('["a\\')).toEqual(["[", '"a\\']);
});

test("pieces have their kind", () => {
  const [, line] = jsonLines('{"<b>":[1]}');
  expect(line!.tokens).toEqual([
    { kind: "key", text: '"<b>"' },
    { kind: "mark", text: ": " },
    { kind: "mark", text: "[" },
  ]);
  expect(jsonLines("[1]")[1]).toEqual({ depth: 1, tokens: [{ kind: "number", text: "1" }] });
});

test("of a very long string the beginning is shown, and the rest is counted", () => {
  const [line] = jsonLines(JSON.stringify("x".repeat(MOST_STRING + 1_234)));
  expect(line!.tokens.map(({ kind }) => kind)).toEqual(["string", "cut"]);
  expect(line!.tokens[0]!.text).toHaveLength(MOST_STRING + 1);
  expect(line!.tokens[1]!.text).toBe("… 1,234 more characters");
});

test("a tree has the rows of its open nodes, by JSON pointers", () => {
  const value = { a: { "b/c": [10, 20] }, "d~": 1 };
  const rows = treeRows(value, (path) => path === "" || path === "/a" || path === "/a/b~1c");
  expect(rows.map(({ path, depth, members }) => [path, depth, members])).toEqual([
    ["", 0, 2],
    ["/a", 1, 1],
    ["/a/b~1c", 2, 2],
    ["/a/b~1c/0", 3, null],
    ["/a/b~1c/1", 3, null],
    ["/d~0", 1, null],
  ]);
  expect(rows.at(-1)).toMatchObject({ place: 2, siblings: 2 });
});

test("at first as many nodes are open as fit, and the root always", () => {
  const small = { a: { b: 1 } };
  expect([...firstOpen(small)]).toEqual(["", "/a"]);
  const wide = { many: Array.from({ length: 500 }, () => 0), few: [1] };
  expect([...firstOpen(wide)].sort()).toEqual(["", "/few"]);
  expect([...firstOpen(Array.from({ length: 500 }, () => 0))]).toEqual([""]);
});

test("numbers beyond JavaScript's precision are shown as they are written", () => {
  const odd = String.raw`{"a":9007199254740993,"a":[-0,1e400,1.0,{}],"é\u00e9":"\ud83d:,{\"","b":{"c":[]}}`;
  const lines = jsonLines(odd).map(({ depth, tokens }) => `${depth} ${tokens.map(({ text }) => text).join("")}`);
  expect(lines).toEqual([
    "0 {",
    '1 "a": 9007199254740993,',
    '1 "a": [',
    "2 -0,",
    "2 1e400,",
    "2 1.0,",
    "2 {}",
    "1 ],",
    String.raw`1 "é\u00e9": "\ud83d:,{\"",`,
    '1 "b": {',
    '2 "c": []',
    "1 }",
    "0 }",
  ]);
});

test("an event is found in its line, regardless of other members", () => {
  const event = String.raw`{"type":"X","a":"}","event":{"b":1}}`;
  expect(eventOf(`{"seq":1,"runId":${JSON.stringify('"event":{}')},"at":"t","event":${event}}`)).toBe(event);
});
