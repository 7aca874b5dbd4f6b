import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import { busyMs } from "../../../sdk/typescript/test/harness/until.ts";
import { blocksOf, partsOf } from "../../src/conversation/markdown/blocks.ts";
import { safeHref, unescaped } from "../../src/conversation/markdown/links.ts";
import { Markdown } from "../../src/conversation/markdown/Markdown.tsx";
import { LONG as FAR, PIECE, piecesOf } from "../../src/conversation/pieces.ts";

function html(text: string): string {
  return renderToStaticMarkup(<Markdown text={text} />).replace(/^<div class="markdown" dir="auto">|<\/div>$/g, "");
}

/** What a reader sees of it. */
function textIn(markup: string): string {
  return markup
    .replace(/<[^>]*>/g, "")
    .replaceAll("&lt;", "<")
    .replaceAll("&gt;", ">")
    .replaceAll("&quot;", '"')
    .replaceAll("&#x27;", "'")
    .replaceAll("&amp;", "&");
}

test.each([
  ["a *b* **c** ~~d~~ `e`", "<p>a <em>b</em> <strong>c</strong> <del>d</del> <code>e</code></p>"],
  ["one\ntwo", "<p>one\ntwo</p>"],
  ["- a\n- b", "<ul><li>a</li><li>b</li></ul>"],
  ["3. a\n4. b", '<ol start="3"><li>a</li><li>b</li></ol>'],
  ["> a\n\n---", "<blockquote><p>a</p></blockquote><hr/>"],
  ["AT&amp;T &lt;b&gt; &#x41; &nope;", "<p>AT&amp;T &lt;b&gt; A &amp;nope;</p>"],
  ["a<br>b", "<p>a<br/>b</p>"],
  ["\\*no\\*", "<p>*no*</p>"],
])("%j is rendered", (text, expected) => {
  expect(html(text)).toBe(expected);
});

test("tables, tasks, headings and code have their markup", () => {
  const table = html("|a|b|\n|-|:-:|\n|1|<br>2|");
  expect(table).toContain('<th style="text-align:center">b</th>');
  expect(table).toContain('role="region" aria-label="Table" tabindex="0"');
  expect(html("- [x] done")).toContain('<input type="checkbox" disabled="" readOnly="" aria-label="Done" checked=""/>');
  expect(html("# top")).toBe('<h2 data-depth="1">top</h2>');
  // No level is left out, whatever the text begins with.
  expect(html("### a\n\n##### b")).toBe('<h2 data-depth="3">a</h2><h4 data-depth="5">b</h4>');
  const code = html("```js {1}\n<b>&amp;\n```");
  expect(code).toContain("<span>js</span>");
  expect(code).toContain("<code>&lt;b&gt;&amp;amp;</code>");
  expect(code).toContain('aria-label="Copy the code"');
});

test.each([
  "<script>alert(1)</script>",
  "<img src=x onerror=alert(1)>",
  "a <b onclick='x()'>b</b>",
  "<a href='javascript:alert(1)'>x</a>",
  "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
  "<!-- comment -->",
  "<style>*{display:none}</style>",
  "<svg><script>alert(1)</script></svg>",
  "<div>\n\n**bold**\n\n</div>",
  '<details open ontoggle="alert(1)">',
  "<https://e.x/<script>>",
])("HTML is text: %j", (text) => {
  const markup = html(text);
  expect(markup).not.toMatch(/<(script|img|iframe|style|svg|div|details|b|!--)\b/);
  expect(markup).not.toMatch(/<[^>]*\son\w+=/);
  expect(textIn(markup).replaceAll("**", "").replaceAll(/\s/g, "")).toContain(
    text
      .replaceAll("**", "")
      .replaceAll(/\s/g, "")
      .replaceAll("<https", "https")
      .slice(0, 12)
      .replace(/^<(?=https)/, ""),
  );
});

test.each([
  "javascript:alert(1)",
  "JaVaScRiPt:alert(1)",
  "java\tscript:alert(1)",
  " javascript:alert(1)",
  "\u0001javascript:alert(1)",
  "javascript&#58;alert(1)",
  "&#x6a;avascript:alert(1)",
  "javascript&colon;alert(1)",
  "vbscript:x",
  "data:text/html,<script>alert(1)</script>",
  "data:image/svg+xml;base64,PHN2Zz4=",
  "file:///etc/passwd",
  "blob:https://e.x/1",
  "//e.x/a",
  "/v1/threads",
  "#/threads/a",
  "?a",
  "relative",
  "",
  "http://",
  "https://user:secret@e.x/",
  "https://bank.example@e.x/",
])("a link to %j leads nowhere", (href) => {
  expect(safeHref(href)).toBeUndefined();
  expect(html(`[text](<${href}>)`)).not.toContain("<a");
  expect(html(`![text](<${href}>)`)).not.toMatch(/<a|<img/);
});

test.each([
  ["https://e.x/a?b=c&d#e", "https://e.x/a?b=c&d#e"],
  ["HTTP://E.X", "http://e.x/"],
  ["mailto:a@e.x", "mailto:a@e.x"],
  ["https://e.x/?a&amp;b", "https://e.x/?a&b"],
  ["https://e.x/\njavascript:alert(1)", "https://e.x/javascript:alert(1)"],
])("a link to %j leads to %j", (href, expected) => {
  expect(safeHref(href)).toBe(expected);
});

test("links open in a new tab, send no referrer, and show their target", () => {
  const markup = html('[good](https://evil.example/ "Bank")');
  expect(markup).toContain('href="https://evil.example/"');
  expect(markup).toContain('title="Bank (https://evil.example/)"');
  expect(markup).toContain('target="_blank" rel="noopener noreferrer"');
  expect(html("www.e.x and https://e.x/")).toContain('href="http://www.e.x/"');
});

test("images are not loaded, but can be opened", () => {
  const markup = html("![a *cat*](https://e.x/c.png)");
  expect(markup).not.toContain("<img");
  expect(markup).toMatch(/<a class="chip" href="https:\/\/e\.x\/c\.png"/);
  expect(textIn(markup)).toContain("cat");
});

test("character references become characters", () => {
  expect(unescaped("&#0;&#xD800;&#x110000;&#9999999;&lt;&constructor;&amp;lt;")).toBe(
    "\ufffd\ufffd\ufffd\ufffd<&constructor;&lt;",
  );
});

test("unclosed markdown is rendered as if it were closed, at each length", () => {
  const text =
    "# A\n\n**b [c](http://e.x/ 'd') `e\n\n- f\n  - g\n\n| h | i |\n|---|---|\n| j | k |\n\n```js\nlet x = `<b>`;\n";
  for (let length = 0; length <= text.length; length += 1) expect(html(text.slice(0, length))).not.toMatch(/<(b|img)>/);
  expect(html("```js\nlet x")).toContain("<code>let x</code>");
});

const LONG = `# Title

A paragraph with **bold** and [a link](http://e.x/), which
goes on.
Setext
------

- one
- two

  with a paragraph

  \`\`\`js
  code();
  \`\`\`
1. other

> quote
lazy

| a | b |
|---|---|
| 1 | 2 |

\`\`\`
fence

still
\`\`\`

[ref]: http://e.x/ref
A [ref] that was defined before.

<div>
html
</div>

The end\r
with a return.
`;

test.each([1, 2, 3, 7, 50])("a text that grows by %i characters ends as one that came whole", (step) => {
  let blocks = blocksOf("");
  for (let length = 0; length < LONG.length + step; length += step) blocks = blocksOf(LONG.slice(0, length), blocks);
  const whole = blocksOf(LONG);
  const plain = (tokens: unknown) => JSON.parse(JSON.stringify(tokens)) as unknown;
  expect(plain(blocks.tokens)).toEqual(plain(whole.tokens));
});

test("final blocks are the same objects while the text grows", () => {
  const before = blocksOf("first\n\nsecond\n\nthi");
  const after = blocksOf("first\n\nsecond\n\nthird", before);
  const [texts, again] = [before, after].map(({ tokens }) => tokens.filter(({ type }) => type === "paragraph"));
  expect(again!.slice(0, 2).every((token, at) => token === texts![at])).toBe(true);
  expect(again![2]!.raw).toBe("third");
  expect(blocksOf("first\n\nsecond\n\nthird", after)).toBe(after);
  expect(blocksOf("something else", after).tokens).toHaveLength(1);
});

// What takes as long as the square of its length would take minutes.
const MANY = 200_000;
const MOST_MS = 10_000;
test.each([
  "*a_",
  "*a **b ",
  "[",
  "[a](",
  "![",
  ">",
  "> ",
  "+ ",
  "`a``b",
  "<a ",
  "~~a ",
  "a@b.c",
  "_a __b ",
  "|a",
  "  - a\n",
  "<!--",
  "&amp;",
  "\\",
  "#",
])("%j, repeated for ever, is read in time and shown", (piece) => {
  const text = piece.repeat(Math.floor(MANY / piece.length));
  let shown = "";
  const took = busyMs(() => (shown = textIn(html(text))));
  expect(shown.length).toBeGreaterThan(0);
  expect(took).toBeLessThan(MOST_MS);
});

test.each([
  [">", `${">".repeat(5_000)}deep`],
  [
    "- ",
    Array.from({ length: 300 }, (_, depth) => `${" ".repeat(2 * depth)}- ${depth < 299 ? "a" : "deep"}`).join("\n"),
  ],
  ["*", `${"*".repeat(4_999)}deep${"*".repeat(4_999)}`],
  ["**a _b ", `${"**a _b ".repeat(99)}deep`],
  ["[](x)", `${"[".repeat(500)}deep${"](x)".repeat(500)}`],
])("nesting of %j without end is shown, too", (_, text) => {
  expect(textIn(html(text))).toContain("deep");
});

test("a text of any length is rendered as markdown completely", () => {
  const words = "**bold** words and `code`. ";
  const text = Array.from({ length: 6_000 }, (_, at) => (at % 9 === 0 ? `\n\n# ${at}\n\n${words}` : words)).join("");
  expect(text.length).toBeGreaterThan(150_000);
  const markup = html(text);
  expect(markup.match(/<strong>/g)).toHaveLength(6_000);
  expect(textIn(markup).replace(/\s/g, "")).toBe(text.replace(/[*`#\s]/g, ""));
});

test("a list of any length is one list, in pieces with continued numbers", () => {
  const text = Array.from({ length: 120 }, (_, at) => `${at + 7}. item ${at}`).join("\n");
  const markup = html(text);
  expect(markup.match(/<ol start="\d+">/g)).toEqual(['<ol start="7">', '<ol start="57">', '<ol start="107">']);
  expect(markup.match(/<li>/g)).toHaveLength(120);
  let blocks = blocksOf("");
  for (let length = 0; length < text.length + 9; length += 9) {
    const before = blocks.tokens;
    blocks = blocksOf(text.slice(0, length), blocks);
    // All but the last piece stay as they are.
    for (const [at, token] of before.slice(0, -1).entries()) expect(blocks.tokens[at]).toBe(token);
  }
  const plain = (tokens: unknown) => JSON.parse(JSON.stringify(tokens)) as unknown;
  expect(plain(blocks.tokens)).toEqual(plain(blocksOf(text).tokens));
});

test("the parts of a long text have all of its blocks, and keep their beginnings while it grows", () => {
  const text = Array.from({ length: 900 }, (_, at) => (at % 5 === 0 ? `## ${at}` : "words ".repeat(20))).join("\n\n");
  const parts = ({ near, far }: ReturnType<typeof partsOf>) => [near, ...far];
  const all = blocksOf(text).tokens;
  const whole = parts(partsOf(all));
  expect(whole.flat()).toEqual(all);
  const size = (part: (typeof whole)[number]) => part.reduce((sum, { raw }) => sum + raw.length, 0);
  expect(size(whole[0]!)).toBeGreaterThanOrEqual(FAR);
  expect(size(whole[0]!)).toBeLessThan(FAR + 500);
  for (const part of whole.slice(1, -1)) expect(size(part)).toBeGreaterThanOrEqual(PIECE);
  for (const part of whole) expect(part.findLast(({ type }) => type !== "space")?.type).not.toBe("heading");
  const some = parts(partsOf(all.slice(0, 600)));
  expect(whole.slice(0, some.length - 1)).toEqual(some.slice(0, -1));
});

test("the pieces of a text are complete, and consist of whole lines", () => {
  const text = "a line\n\n".repeat(5_000) + "x".repeat(3 * PIECE);
  const pieces = piecesOf(text);
  expect(pieces.join("")).toBe(text);
  for (const piece of pieces.slice(0, -1)) expect(piece.endsWith("\n")).toBe(true);
  expect(piecesOf(text.slice(0, 20_000)).slice(0, -1)).toEqual(pieces.slice(0, 4));
  expect(piecesOf("")).toEqual([]);
});
