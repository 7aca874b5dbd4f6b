// Writes src/generated/agui.ts: AG-UI's types, from the package @ag-ui/core that the tests use. With --check, compares it.
//
// Readers and producers need other forms than the package has: without its enum, since an event is plain JSON; immutable; and
// `unknown` in place of `any`. CUSTOM events and the state have the types that an application registers (src/register.ts).

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import prettier from "prettier";
import ts from "typescript";

const CORE = fileURLToPath(new URL("../../../tests/agui/node_modules/@ag-ui/core/", import.meta.url));
const TARGET = fileURLToPath(new URL("../src/generated/agui.ts", import.meta.url));

/** Types to write, with all that they contain, and their names here. */
const ROOTS = {
  Event: "AgUiEvent",
  Message: "Message",
  Tool: "Tool",
  RunAgentInput: "RunAgentInput",
  Interrupt: "Interrupt",
};
/** Types whose members other types repeat. */
const BASES = ["BaseEvent", "Attributable"];
/** Members that the wire does not require; the package fills them in. */
const OPTIONAL = { RunAgentInput: ["tools", "context"] };
/** Types that the application chooses, of src/register.ts. */
const REGISTERED = ["State"];

/** The file with the declarations: the entry imports all of them from one other file. */
function declarations() {
  try {
    const [, name] = /^import \{.*\} from "\.\/(.+)\.js";$/m.exec(readFileSync(join(CORE, "dist/index.d.ts"), "utf8"));
    const path = join(CORE, `dist/${name}.d.ts`);
    return ts.createSourceFile(path, readFileSync(path, "utf8"), ts.ScriptTarget.ES2022, true);
  } catch (cause) {
    throw new Error(`${CORE} is not installed, or has another form: run make setup-test`, { cause });
  }
}

const source = declarations();
const { version } = JSON.parse(readFileSync(join(CORE, "package.json"), "utf8"));
const known = new Map(source.statements.filter(ts.isTypeAliasDeclaration).map((type) => [type.name.text, type]));
/** Types to write, in the order in which they are met. */
const wanted = new Set([...BASES, ...Object.keys(ROOTS)]);

/** The comment of a node as one line: its first sentence. */
function comment(node) {
  const [doc] = ts.getJSDocCommentsAndTags(node);
  const text = ts.getTextOfJSDocComment(doc?.comment)?.replace(/\s+/g, " ") ?? "";
  const [sentence] = /^.*?[.](?= |$)/.exec(text) ?? [text];
  return sentence ? `/** ${sentence} */\n` : "";
}

function named(name) {
  if (REGISTERED.includes(name)) return name;
  wanted.add(name);
  return ROOTS[name] ?? name;
}

function typeText(node) {
  switch (node.kind) {
    case ts.SyntaxKind.AnyKeyword:
      return "unknown";
    case ts.SyntaxKind.ArrayType:
      return `readonly ${typeText(node.elementType)}[]`;
    case ts.SyntaxKind.UnionType:
      return node.types.map(typeText).join(" | ");
    case ts.SyntaxKind.TypeLiteral:
      return `{ ${node.members.map((member) => memberText(member)).join("\n")} }`;
    case ts.SyntaxKind.TypeReference: {
      // A member of the enum has its own name as its value.
      if (ts.isQualifiedName(node.typeName)) return JSON.stringify(node.typeName.right.text);
      const name = node.typeName.text;
      if (name === "Record") return `Readonly<Record<${node.typeArguments.map(typeText).join(", ")}>>`;
      return named(name);
    }
    case ts.SyntaxKind.LiteralType:
    case ts.SyntaxKind.StringKeyword:
    case ts.SyntaxKind.NumberKeyword:
    case ts.SyntaxKind.BooleanKeyword:
      return node.getText(source);
    default:
      throw new Error(`no rule for ${node.getText(source)}: add one to scripts/agui-types.mjs`);
  }
}

function memberText(member, owner) {
  const name = member.name.getText(source);
  const isOptional = member.questionToken !== undefined || OPTIONAL[owner]?.includes(name);
  // A discriminator says itself what it is.
  const doc = ts.isLiteralTypeNode(member.type) || isEventType(member) ? "" : comment(member);
  return `${doc}readonly ${name}${isOptional ? "?" : ""}: ${typeText(member.type)};`;
}

function isEventType({ type }) {
  return ts.isTypeReferenceNode(type) && ts.isQualifiedName(type.typeName);
}

/** Members of a base, without the type of an event. */
function membersOf(base) {
  return known.get(base).type.members.filter((member) => member.name.getText(source) !== "type");
}

function text(name) {
  const type = known.get(name);
  if (!type) throw new Error(`@ag-ui/core ${version} has no type ${name}`);
  const head = `${comment(type)}export type ${ROOTS[name] ?? name} =`;
  if (BASES.includes(name))
    return `${head} { ${membersOf(name)
      .map((member) => memberText(member))
      .join("\n")} };`;
  if (!ts.isTypeLiteralNode(type.type)) return `${head} ${typeText(type.type)};`;
  let members = [...type.type.members];
  const bases = BASES.filter((base) => {
    const same = (one) => membersOf(base).find((other) => withoutDoc(other) === withoutDoc(one));
    if (!membersOf(base).every((member) => members.some((one) => withoutDoc(one) === withoutDoc(member)))) return false;
    members = members.filter((member) => !same(member));
    return true;
  });
  const own = members.map((member) => memberText(member, name)).join("\n");
  if (name === "CustomEvent") return `${head} ${customs(bases, own)};`;
  return `${head} ${[...bases, `{ ${own} }`].join(" & ")};`;
}

/** CUSTOM events, one for each name that is registered. */
function customs(bases, own) {
  const names = "keyof CustomEvents & string";
  const members = own.replace("name: string", "name: Name").replace("value: unknown", "value: CustomEvents[Name]");
  if (members === own) throw new Error("CustomEvent has other members than name and value");
  return `{ [Name in ${names}]: ${[...bases, `{ ${members} }`].join(" & ")} }[${names}]`;
}

function withoutDoc(member) {
  return `${member.name.getText(source)}${member.questionToken ? "?" : ""}: ${member.type.getText(source)}`;
}

const types = [];
for (const name of wanted) types.push(text(name));
const code = `// AG-UI's types, of @ag-ui/core ${version}. Written by scripts/agui-types.mjs.

import type { CustomEvents, State } from "../register.js";

${types.join("\n\n")}
`;
const written = await prettier.format(code, { parser: "typescript", ...(await prettier.resolveConfig(TARGET)) });
if (!process.argv.includes("--check")) {
  writeFileSync(TARGET, written);
} else if (readFileSync(TARGET, "utf8") !== written) {
  console.error(`src/generated/agui.ts is not that of @ag-ui/core ${version}: run npm run types`);
  process.exitCode = 1;
}
