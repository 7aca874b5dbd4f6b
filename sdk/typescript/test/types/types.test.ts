// What must not compile does not, and would if the types were wider.

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import ts from "typescript";
import { expect, test } from "vitest";

const root = fileURLToPath(new URL("../../", import.meta.url));
const here = `${root}test/types/`;
const EVENTS = readFileSync(`${here}events.ts`, "utf8");
const REGISTERED = readFileSync(`${here}registered.txt`, "utf8");
const GENERATED = `${root}src/generated/agui.ts`;

const OPTIONS: ts.CompilerOptions = {
  target: ts.ScriptTarget.ES2022,
  lib: ["lib.es2023.d.ts", "lib.dom.d.ts", "lib.dom.iterable.d.ts", "lib.dom.asynciterable.d.ts"],
  module: ts.ModuleKind.ESNext,
  moduleResolution: ts.ModuleResolutionKind.Bundler,
  strict: true,
  skipLibCheck: true,
  noEmit: true,
  types: [],
  paths: { threadline: [`${root}src/index.ts`], "threadline/*": [`${root}src/*/index.ts`] },
};

/** Sources that no test replaces are parsed once. */
const parsed = new Map<string, ts.SourceFile | undefined>();

/** Type errors of a file, as `line: message`, with other contents of some files. */
function complaints(path: string, contents: Readonly<Record<string, string>>): string[] {
  const host = ts.createCompilerHost(OPTIONS);
  const { fileExists, readFile, getSourceFile } = host;
  host.fileExists = (name) => name in contents || fileExists(name);
  host.readFile = (name) => contents[name] ?? readFile(name);
  host.getSourceFile = (name, language, ...more) => {
    const code = contents[name];
    if (code !== undefined) return ts.createSourceFile(name, code, language, true);
    if (!parsed.has(name)) parsed.set(name, getSourceFile(name, language, ...more));
    return parsed.get(name);
  };
  const program = ts.createProgram([path], OPTIONS, host);
  return ts.getPreEmitDiagnostics(program, program.getSourceFile(path)).map(({ file, start, messageText }) => {
    const line = file && start !== undefined ? file.getLineAndCharacterOfPosition(start).line + 1 : 0;
    return `${line}: ${ts.flattenDiagnosticMessageText(messageText, " ")}`;
  });
}

/** The lines of a code with an expected error, whose comment has these words. */
function expectations(code: string, words: RegExp): string[] {
  return code
    .split("\n")
    .flatMap((line, at) => (/@ts-expect-error (.*)/.exec(line)?.[1]?.match(words) ? [`${at + 1}`] : []));
}

/** Lines whose expected errors are missing. */
const unused = (code: string, contents: Readonly<Record<string, string>>, path: string) =>
  complaints(path, { ...contents, [path]: code })
    .filter((complaint) => complaint.includes("Unused '@ts-expect-error'"))
    .map((complaint) => complaint.split(":")[0]!);

/** The generated types, with another type in the place of one. */
function widened(name: string, type: string): Readonly<Record<string, string>> {
  const code = readFileSync(GENERATED, "utf8");
  const wide = code.replace(new RegExp(`^export type ${name} =\\n?(.|\\n)*?;$`, "m"), `export type ${name} = ${type};`);
  expect(wide).not.toBe(code);
  return { [GENERATED]: wide };
}

const OPEN = "{ readonly type: string; readonly [member: string]: any }";

test("mistakes do not compile, and each would with a wider union", () => {
  const path = `${here}events.ts`;
  expect(complaints(path, { [path]: EVENTS })).toEqual([]);
  const found = unused(EVENTS, widened("AgUiEvent", OPEN), path);
  const wanted = expectations(produced(EVENTS), /./);
  expect(wanted.length).toBeGreaterThanOrEqual(6);
  expect(found).toEqual(expect.arrayContaining(wanted));
});

test("registered types are those of states, metadata and CUSTOM events", () => {
  const path = `${here}registered.ts`;
  expect(complaints(path, { [path]: REGISTERED })).toEqual([]);
  const found = unused(REGISTERED, widened("AgUiEvent", OPEN), path);
  expect(found).toEqual(expectations(REGISTERED, /misspelled name|no such state|wrong kind of value/).slice(1));
});

/** The part of the code about events; the rest is about other types. */
function produced(code: string): string {
  return code.slice(0, code.indexOf("export async function sends"));
}
