import type { AnyMessage } from "../../src/untrusted.ts";
import { expect, test } from "vitest";
import { fieldsOf, payloadOf } from "../../src/conversation/answers.ts";
import { partsOf, textOf } from "../../src/conversation/content.ts";
import { itemMaker } from "../../src/conversation/items.ts";
import { shownOf } from "../../src/conversation/Json.tsx";

const call = (id: string) => ({ id, type: "function" as const, function: { name: "f", arguments: "{}" } });
const user: AnyMessage = { id: "u", role: "user", content: "hello" };
const caller: AnyMessage = { id: "a", role: "assistant", toolCalls: [call("c1"), call("c2")] };
const result = (id: string, toolCallId: string): AnyMessage => ({ id, role: "tool", toolCallId, content: "x" });

test("results are shown within the calls that they answer; results without a call stay", () => {
  const lost = result("r9", "c9");
  const items = itemMaker()([user, caller, result("r2", "c2"), result("r1", "c1"), lost]);
  expect(items.map(({ message, results }) => [message.id, results.map(({ id }) => id)])).toEqual([
    ["u", []],
    ["a", ["r1", "r2"]],
    ["r9", []],
  ]);
});

test("only the first of an agent's consecutive messages begins its turn", () => {
  const items = itemMaker()([
    { id: "1", role: "reasoning" },
    { id: "2", role: "assistant" },
    { id: "3", role: "user" },
    { id: "4", role: "assistant" },
  ]);
  expect(items.map(({ beginsTurn }) => beginsTurn)).toEqual([true, false, false, true]);
});

test("unchanged items are the same objects", () => {
  const make = itemMaker();
  const before = make([user, caller, result("r1", "c1")]);
  const grown: AnyMessage = { id: "b", role: "assistant", content: "…" };
  const after = make([user, caller, result("r1", "c1"), grown]);
  expect(after[0]).toBe(before[0]);
  // Its result is another object.
  expect(after[1]).not.toBe(before[1]);
  const again = make([user, caller, after[1]!.results[0]!, { ...grown, content: "……" }]);
  expect(again[1]).toBe(after[1]);
  expect(again[2]).not.toBe(after[2]);
});

test.each<[unknown, unknown]>([
  [undefined, []],
  ["", []],
  ["a", [{ kind: "text", text: "a" }]],
  [
    [{ type: "text", text: "a" }, "b"],
    [
      { kind: "text", text: "a" },
      { kind: "text", text: "b" },
    ],
  ],
  [
    [{ type: "image", source: { type: "url", value: "https://e.x/i" } }],
    [{ kind: "file", what: "Image", name: "", url: "https://e.x/i" }],
  ],
  [
    [{ type: "image_url", image_url: { url: "https://e.x/i" } }],
    [{ kind: "file", what: "Image", name: "", url: "https://e.x/i" }],
  ],
  [
    [{ type: "binary", mimeType: "application/pdf", filename: "a.pdf", data: "…" }],
    [{ kind: "file", what: "File", name: "a.pdf", url: undefined }],
  ],
  [
    [{ type: "image", source: { type: "data", value: "AAAA", mimeType: "image/png" } }],
    [{ kind: "file", what: "Image", name: "image/png", url: undefined }],
  ],
  [[null, 7, { type: "constructor" }], [null, 7, { type: "constructor" }].map((value) => ({ kind: "other", value }))],
  [[{ type: { toString: 1 } }], [{ kind: "other", value: { type: { toString: 1 } } }]],
  [{ a: 1 }, [{ kind: "other", value: { a: 1 } }]],
])("the parts of %j", (content, expected) => {
  expect(partsOf({ id: "m", role: "user", content })).toEqual(expected);
});

test("the text of a message leaves out its files", () => {
  const content = [{ type: "text", text: "a" }, { type: "file" }, { type: "text", text: "b" }];
  expect(textOf({ id: "m", role: "user", content })).toBe("a\n\nb");
});

test("an interrupt's schema becomes fields, and their texts an answer", () => {
  const properties = {
    approved: { type: "boolean", title: "Approved?", description: "Whether" },
    color: { enum: ["red", 1, "1"] },
    count: { type: ["null", "integer"] },
    note: { type: "string" },
    more: { type: "object" },
  };
  const fields = fieldsOf({ responseSchema: { type: "object", properties, required: ["approved", "count"] } });
  expect(fields.map(({ kind, label, isRequired }) => [kind, label, isRequired])).toEqual([
    ["boolean", "Approved?", true],
    ["choice", "color", false],
    ["number", "count", true],
    ["text", "note", false],
    ["json", "more", false],
  ]);
  const answer = (values: Record<string, string>) => payloadOf(fields, new Map(Object.entries(values)));
  expect(answer({ approved: "true", color: "1", count: "3", note: "", more: '{"a":[1]}' })).toEqual({
    approved: true,
    color: 1,
    count: 3,
    more: { a: [1] },
  });
  expect(answer({ approved: "false", color: '"1"', count: "-0.5", note: "x" })).toEqual({
    approved: false,
    color: "1",
    count: -0.5,
    note: "x",
  });
  expect(() => answer({ count: "" })).toThrow("“count” has to be a number.");
  expect(() => answer({ count: "1", more: '{"a"' })).toThrow("“more” is not valid JSON.");
});

test("without a usable schema, any answer can be given", () => {
  for (const responseSchema of [undefined, null, [], "x", { type: "object" }]) {
    const fields = fieldsOf({ responseSchema });
    expect(fields).toHaveLength(1);
    expect(payloadOf(fields, new Map([["", "yes, do"]]))).toBe("yes, do");
    expect(payloadOf(fields, new Map([["", '{"a":1}']]))).toEqual({ a: 1 });
  }
  const [bool] = fieldsOf({ responseSchema: { type: "boolean" } });
  expect(payloadOf([bool!], new Map([["", "true"]]))).toBe(true);
});

/** What is shown, in lines as they are indented. */
const seen = (value: unknown) => {
  const { lines, text } = shownOf(value);
  return lines?.map(({ depth, tokens }) => "  ".repeat(depth) + tokens.map(({ text }) => text).join("")) ?? text;
};

test.each<[unknown, unknown]>([
  ['{"a":[1]}', ["{", '  "a": [', "    1", "  ]", "}"]],
  [{ a: [1], b: undefined }, ["{", '  "a": [', "    1", "  ]", "}"]],
  ['{"a":12345678901234567890}', ["{", '  "a": 12345678901234567890', "}"]],
  ['{"a":"unfini', '{"a":"unfini'],
  ["[INFO] no\n  JSON", "[INFO] no\n  JSON"],
  ["plain", "plain"],
  ["17", "17"],
  [null, ["null"]],
])("%j is shown as %j", (value, expected) => {
  expect(seen(value)).toEqual(expected);
  expect(shownOf(value).isCut).toBe(false);
});

test("of a huge value only the shown part is read", () => {
  const looked = new Set<string>();
  const huge = new Proxy(Object.fromEntries(Array.from({ length: 50_000 }, (_, at) => [`k${at}`, "value"])), {
    get: (of, name) => (looked.add(String(name)), Reflect.get(of, name) as unknown),
  });
  const { lines, isCut } = shownOf(huge);
  expect(isCut).toBe(true);
  expect(lines!.length).toBe(1_000);
  expect(looked.size).toBeLessThan(2_000);
});
