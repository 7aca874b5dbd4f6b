// Code of the repository's pages: its blocks, and their type errors.

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import ts from "typescript";

/** The repository. */
export const root = fileURLToPath(new URL("../../../..", import.meta.url));
/** A page, or any other file of the repository. */
export const read = (page: string) => readFileSync(root + page, "utf8");
const modules = (folder: string) => `${root}${folder}/node_modules`;
export const AG_UI = modules("tests/real/node");
const BROWSER = modules("examples/copilotkit");
const RUNTIME = modules("tests/copilotkit/packages/newest");

/** The blocks of a page, or of its section under a heading, in one of these languages. */
export function blocks(page: string, heading?: string): string[] {
  const text = heading === undefined ? read(page) : read(page).split(`\n## ${heading}\n`)[1]!.split("\n## ")[0]!;
  return [...text.matchAll(/^```(?:js|jsx|ts|tsx)\n(.*?)^```$/gms)].map(([, code]) => code!);
}

/** Type errors of pieces of code, each in its own module. */
export function complaints(pieces: Readonly<Record<string, string>>): string[] {
  const folder = `${root}sdk/typescript/test/docs/`;
  const files = new Map(Object.entries(pieces).map(([name, code]) => [`${folder}${name}`, code]));
  const options: ts.CompilerOptions = {
    target: ts.ScriptTarget.ES2022,
    lib: ["lib.es2023.d.ts", "lib.dom.d.ts", "lib.dom.iterable.d.ts", "lib.dom.asynciterable.d.ts"],
    module: ts.ModuleKind.ESNext,
    moduleResolution: ts.ModuleResolutionKind.Bundler,
    jsx: ts.JsxEmit.ReactJSX,
    strict: true,
    skipLibCheck: true,
    noEmit: true,
    types: ["node"],
    typeRoots: [`${root}sdk/typescript/node_modules/@types`],
    paths: {
      threadline: [`${root}sdk/typescript/src/index.ts`],
      "threadline/*": [`${root}sdk/typescript/src/*/index.ts`],
      "@ag-ui/client": [`${AG_UI}/@ag-ui/client`],
      "@copilotkit/react-core/*": [
        `${BROWSER}/@copilotkit/react-core/*`,
        `${BROWSER}/@copilotkit/react-core/dist/*/index.d.mts`,
      ],
      "@copilotkit/runtime/*": [
        `${RUNTIME}/@copilotkit/runtime/*`,
        `${RUNTIME}/@copilotkit/runtime/dist/*/index.d.mts`,
      ],
      react: [`${root}sdk/typescript/node_modules/@types/react`],
      "react/*": [`${root}sdk/typescript/node_modules/@types/react/*`],
    },
  };
  const host = ts.createCompilerHost(options);
  const { fileExists, readFile, getSourceFile, directoryExists } = host;
  // The folder of the pieces is nowhere else.
  host.directoryExists = (path) => `${path}/` === folder || (directoryExists?.(path) ?? true);
  host.fileExists = (path) => files.has(path) || fileExists(path);
  host.readFile = (path) => files.get(path) ?? readFile(path);
  host.getSourceFile = (path, language, ...more) => {
    const code = files.get(path);
    return code === undefined
      ? getSourceFile(path, language, ...more)
      : ts.createSourceFile(path, code, language, true);
  };
  const program = ts.createProgram([...files.keys()], options, host);
  return [...files.keys()].flatMap((path) =>
    ts.getPreEmitDiagnostics(program, program.getSourceFile(path)).map(({ file, start, messageText }) => {
      const line = file && start !== undefined ? file.getLineAndCharacterOfPosition(start).line + 1 : 0;
      return `${path.slice(folder.length)}:${line}: ${ts.flattenDiagnosticMessageText(messageText, " ")}`;
    }),
  );
}
