// The blocks of docs/recipes.md as modules: bundled for a page or for this process, with the package as it is here.

import { createRequire } from "node:module";
import { build, type BuildOptions, type OutputFile, type Plugin } from "esbuild";
import { blocks, read, root } from "./documents.js";

const SOURCES = `${root}sdk/typescript/src`;
const PAGE = "docs/recipes.md";

/** The blocks of a recipe by the names of their files, which their first lines have. */
export function recipe(heading: string): Map<string, string> {
  const named = blocks(PAGE, heading).map((block) => {
    const [, name, code] = /^\/\/ (\S+)\n(.*)$/s.exec(block) ?? [];
    if (name === undefined || code === undefined) throw new Error(`${PAGE}: a block does not name its file:\n${block}`);
    return [name, code] as const;
  });
  return new Map(named);
}

/** Recipes whose blocks are type-checked and run. The blocks of the others are files of examples. */
export const RUN = [
  "Users who sign in",
  "A chat with optimistic messages",
  "assistant-ui",
  "Tests of your application",
];

/** The blocks of these recipes as pieces to check, by names that no other recipe has. */
export function pieces(): [name: string, code: string][] {
  return RUN.flatMap((heading) => {
    const of = heading.replaceAll(" ", "-");
    return [...recipe(heading)].map(([name, code]): [string, string] => {
      const local = code.replace(/ from "\.\/(\w+)"/g, (_, module: string) => ` from "./${of}-${module}"`);
      return [`${of}-${name}`, `${local}\nexport {};`];
    });
  });
}

/** The headings of the recipes. */
export function headings(): string[] {
  return [...read(PAGE).matchAll(/^## (.+)$/gm)].map(([, heading]) => heading!);
}

/** Takes files from memory, and the package from its sources. `entry` is an import of what the bundle begins with. */
function of(files: ReadonlyMap<string, string>): Plugin {
  const place = new RegExp(`^\\./(${[...files.keys()].map((name) => name.replace(/\.tsx?$/, "")).join("|")})$`);
  return {
    name: "recipe",
    setup({ onResolve, onLoad }) {
      onResolve({ filter: place }, ({ path }) => {
        const name = path.slice("./".length);
        return { path: files.has(`${name}.tsx`) ? `${name}.tsx` : `${name}.ts`, namespace: "recipe" };
      });
      onLoad({ filter: /.*/, namespace: "recipe" }, ({ path }) => ({
        contents: files.get(path),
        loader: path.endsWith("x") ? "tsx" : "ts",
        resolveDir: `${root}sdk/typescript/test`,
      }));
    },
  };
}

const OPTIONS = {
  bundle: true,
  write: false,
  jsx: "automatic",
  alias: {
    threadline: `${SOURCES}/index.ts`,
    "threadline/react": `${SOURCES}/react/index.ts`,
  },
} as const;

/** Bundles a program that begins with an import of these files. */
async function bundled(files: ReadonlyMap<string, string>, entry: string, how: BuildOptions): Promise<OutputFile> {
  const stdin = { contents: entry, resolveDir: `${root}sdk/typescript/test`, loader: "ts" } as const;
  const { outputFiles } = await build({ ...OPTIONS, ...how, stdin, plugins: [of(files)] });
  return outputFiles![0]!;
}

/** The script of a page that begins with an import of these files. */
export async function scriptOf(files: ReadonlyMap<string, string>, entry: string): Promise<Uint8Array> {
  const define = { "process.env.NODE_ENV": '"development"' };
  const { contents } = await bundled(files, entry, { format: "esm", platform: "browser", define });
  return contents;
}

/** Runs these files in this process, and returns what `entry` exports. Other packages are `given`, or required by their names. */
export async function evaluate<T>(
  files: ReadonlyMap<string, string>,
  entry: string,
  given: Readonly<Record<string, unknown>>,
): Promise<T> {
  const { text } = await bundled(files, entry, { format: "cjs", platform: "node", external: Object.keys(given) });
  const require = createRequire(import.meta.url);
  const exported = { exports: {} };
  const has = (name: string): unknown => given[name] ?? require(name);
  new Function("require", "module", "exports", text)(has, exported, exported.exports);
  return exported.exports as T;
}
