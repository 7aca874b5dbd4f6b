// Refuses style rules that can hit an element they were not written for. `npm run lint` runs it.
//
// A class is either a name, which an element always has (`tool-card`), or a state, which it has at times (`running`, `failed`).
// Classes are global, and two components may well have a state of the same word. So:
//
//   1. a rule for a state names the element as well: `.tool-card.running`, never `.running`, nor `.list .running` or `p.running`;
//   2. a class whose end is computed (`status-${status}`) shares its beginning with no name, so that no value becomes one;
//   3. every class of a rule is one that an element can have.
//
// Which classes an element can have is read from its `className`, by the types of what is in it.

import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";

const here = fileURLToPath(new URL(".", import.meta.url));
/** Stands for the part of a class that is not known before it is computed. */
const ANY = "*";
/** Combinations of one `className` that are looked at. */
const MOST = 10_000;

/** Classes of the components, read once: that takes seconds. */
let known;

/** The complaints about the styles in `src`, a line each. `more` has further style sheets, by name. */
export function complaints(more = {}) {
  const classes = (known ??= classesOf(join(here, "src")));
  const found = [...classes.complaints];
  const sheets = Object.entries(more);
  for (const file of files(join(here, "src"), /\.css$/))
    sheets.push([relative(here, file), readFileSync(file, "utf8")]);
  for (const [name, css] of sheets) {
    for (const { line, compounds } of rules(css)) {
      for (const compound of compounds) found.push(...wrong(compound, classes).map((why) => `${name}:${line} ${why}`));
    }
  }
  return [...new Set(found)];
}

function wrong(compound, { names, states }) {
  const own = compound.match(/\.[\w-]+/g)?.map((each) => each.slice(1)) ?? [];
  const unknown = own.filter((each) => !has(names, each) && !has(states, each));
  if (unknown.length > 0) return unknown.map((each) => `.${each} is a class that no element has`);
  // With a hyphen it is of a family of its own (rule 2).
  const isState = (each) => has(states, each) && !each.includes("-");
  if (own.length === 0 || !own.every(isState)) return [];
  return [`${compound} is a state that any component may have: say whose, as in .tool-card.running`];
}

function has(classes, name) {
  return classes.has(name) || [...classes].some((each) => each.endsWith(ANY) && name.startsWith(each.slice(0, -1)));
}

/** The compound selectors of each rule, with the line where it begins. */
function* rules(css) {
  const text = css.replace(/\/\*[^]*?\*\//g, (comment) => comment.replace(/[^\n]/g, " "));
  for (const { 0: prelude, index } of text.matchAll(/[^{};]+(?=\{)/g)) {
    const selectors = prelude.trim();
    if (selectors.startsWith("@")) continue;
    const line = text.slice(0, index + prelude.search(/\S/)).split("\n").length;
    yield { line, compounds: alternatives(selectors).flatMap((each) => each.split(/[\s>+~,]+/)) };
  }
}

/** A selector without what it only asks about, and once for each of the choices that `:is()` gives. */
function alternatives(selector) {
  const plain = selector.replace(/\[[^\]]*\]/g, "").replace(/:(?:not|has)\((?:[^()]|\([^()]*\))*\)/g, "");
  const choice = /:(?:is|where)\(([^()]*)\)/.exec(plain);
  if (!choice) return [plain];
  return choice[1].split(",").flatMap((each) => alternatives(plain.replace(choice[0], each.trim())));
}

/** The names and the states that elements have. */
function classesOf(root) {
  const options = ts.parseJsonConfigFileContent(
    ts.readConfigFile(join(here, "tsconfig.json"), ts.sys.readFile).config,
    ts.sys,
    here,
  ).options;
  const sources = files(root, /\.tsx?$/);
  const program = ts.createProgram(sources, options);
  const checker = program.getTypeChecker();
  const [names, states, families] = [new Set(), new Set(), new Map()];
  const complaints = [];
  for (const file of sources) {
    const source = program.getSourceFile(file);
    const look = (node) => {
      if (ts.isJsxAttribute(node) && node.name.getText(source) === "className") take(node);
      ts.forEachChild(node, look);
    };
    const take = (node) => {
      const where = `${relative(here, file)}:${source.getLineAndCharacterOfPosition(node.getStart(source)).line + 1}`;
      const given = ts.isJsxExpression(node.initializer) ? node.initializer.expression : node.initializer;
      try {
        const all = possible(given).map((text) => new Set(text.split(/\s+/).filter(Boolean)));
        for (const each of new Set(all.flatMap((one) => [...one]))) {
          (all.every((one) => one.has(each)) && !each.endsWith(ANY) ? names : states).add(each);
        }
      } catch (error) {
        complaints.push(`${where} ${error.message}`);
      }
    };
    look(source);
  }
  for (const [family, members] of families) {
    const other = [...names].find(
      (name) => name.startsWith(family) && !members.has(name) && !members.has(family + ANY),
    );
    if (other)
      complaints.push(`.${family}… is computed from a value, and .${other} is a name: give it another beginning`);
  }
  return { names, states, complaints };

  /** All texts that an expression can have. */
  function possible(node) {
    if (ts.isParenthesizedExpression(node) || ts.isNonNullExpression(node)) return possible(node.expression);
    if (ts.isStringLiteralLike(node)) return [node.text];
    if (ts.isTemplateExpression(node)) return ofTemplate(node);
    if (ts.isConditionalExpression(node)) return [...possible(node.whenTrue), ...possible(node.whenFalse)];
    if (ts.isBinaryExpression(node)) {
      const { kind } = node.operatorToken;
      if (kind === ts.SyntaxKind.AmpersandAmpersandToken) return ["", ...possible(node.right)];
      return [...possible(node.left), ...possible(node.right)];
    }
    if (ts.isArrayLiteralExpression(node)) return joined(node.elements.map(possible), " ");
    // `[…].filter(Boolean).join(" ")`
    if (ts.isCallExpression(node) && ts.isPropertyAccessExpression(node.expression)) {
      if (["filter", "join"].includes(node.expression.name.text)) return possible(node.expression.expression);
    }
    // What a component hands on: its callers say it, and are looked at themselves.
    if (/(^|\.)className$/.test(node.getText()) && !declared(node)) return [""];
    const initializer = declared(node);
    if (initializer) return possible(initializer);
    return ofType(checker.getTypeAtLocation(node), node);
  }

  function declared(node) {
    if (!ts.isIdentifier(node)) return undefined;
    const declaration = checker.getSymbolAtLocation(node)?.valueDeclaration;
    return declaration && ts.isVariableDeclaration(declaration) && ts.isIdentifier(declaration.name)
      ? declaration.initializer
      : undefined;
  }

  function ofTemplate(node) {
    let before = node.head.text;
    const pieces = [[before]];
    for (const { expression, literal } of node.templateSpans) {
      const values = possible(expression);
      const family = /[\w-]*-$/.exec(before)?.[0];
      if (family) {
        const members = families.get(family) ?? new Set();
        for (const value of values) members.add(family + value);
        families.set(family, members);
      }
      pieces.push(values, [literal.text]);
      before = literal.text;
    }
    return joined(pieces, "");
  }

  function ofType(type, node) {
    const types = type.isUnion() ? type.types : [type];
    return types.map((each) => {
      if (each.isStringLiteral()) return each.value;
      if (each.flags & (ts.TypeFlags.Undefined | ts.TypeFlags.Null | ts.TypeFlags.BooleanLiteral)) return "";
      if (each.flags & ts.TypeFlags.NumberLike) return ANY;
      throw new Error(`a class that can be anything: ${node.getText()}`);
    });
  }
}

function joined(pieces, glue) {
  return pieces.reduce(
    (all, piece) => {
      const next = all.flatMap((before) => piece.map((each) => (before === undefined ? each : before + glue + each)));
      if (next.length > MOST) throw new Error("a class of too many combinations");
      return next;
    },
    [undefined],
  );
}

function files(folder, which) {
  return readdirSync(folder, { recursive: true })
    .filter((name) => which.test(name))
    .map((name) => join(folder, name))
    .sort();
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const found = complaints();
  for (const each of found) console.error(each);
  if (found.length > 0) process.exit(1);
}
