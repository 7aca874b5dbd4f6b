import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { publint } from "publint";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

const run = promisify(execFile);
const root = fileURLToPath(new URL("../..", import.meta.url));
const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
  exports: Record<string, string | { default: string }>;
};

/** The package's own modules that run in browsers, with what their users bring along left out. */
const entries = Object.entries(manifest.exports).flatMap(([name, target]) =>
  typeof target === "string" ? [] : [[name, target.default] as const],
);
const peers = ["react", "react/jsx-runtime", "@inngest/agent-kit"];

interface Bundled {
  /** What a page loads at once: the entry, and what it imports. */
  readonly first: string;
  /** And what is loaded when it is needed. */
  readonly all: string;
}

async function bundle(contents: string, platform: "browser" | "neutral" = "browser"): Promise<Bundled> {
  const { outputFiles, metafile } = await build({
    stdin: { contents, resolveDir: root, sourcefile: "page.js" },
    bundle: true,
    minify: true,
    write: false,
    metafile: true,
    format: "esm",
    splitting: true,
    outdir: join(root, "out"),
    absWorkingDir: root,
    target: "es2022",
    platform,
    external: peers,
    logLevel: "silent",
  });
  const texts = new Map(outputFiles.map(({ path, text }) => [relative(root, path), text]));
  const first = new Set<string>();
  const load = (path: string) => {
    if (first.has(path) || !texts.has(path)) return;
    first.add(path);
    for (const { path: imported, kind } of metafile.outputs[path]!.imports) {
      if (kind === "import-statement") load(imported);
    }
  };
  load(Object.entries(metafile.outputs).find(([, { entryPoint }]) => entryPoint === "page.js")![0]);
  return { first: [...first].map((path) => texts.get(path)).join(""), all: [...texts.values()].join("") };
}

const gzipped = (text: string) => gzipSync(text, { level: 9 }).length;

describe("what is published", () => {
  let folder = "";
  let tarball = "";
  let files: string[] = [];

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "threadline-pack-"));
    const { stdout } = await run(
      "npm",
      ["pack", "--json", "--silent", "--ignore-scripts", "--pack-destination", folder],
      { cwd: root },
    );
    const [packed] = JSON.parse(stdout) as [{ filename: string; files: { path: string }[] }];
    tarball = join(folder, packed.filename);
    files = packed.files.map(({ path }) => path);
  });

  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  test("is the built modules, their types and sources, and what describes them", () => {
    const others = files.filter((path) => !/^(dist|src)\/.+\.(js|d\.ts|ts|tsx|map)$/.test(path));
    expect(others.sort()).toEqual(["LICENSE", "README.md", "package.json"]);
    for (const [, target] of entries) expect(files).toContain(target.slice(2));
    // Every source has its module and its types, and nothing is left over of what was built before.
    const stems = (pattern: RegExp) => files.flatMap((path) => path.match(pattern)?.[1] ?? []).sort();
    expect(stems(/^dist\/(.+)\.js$/)).toEqual(stems(/^src\/(.+)\.tsx?$/));
    expect(stems(/^dist\/(.+)\.d\.ts$/)).toEqual(stems(/^src\/(.+)\.tsx?$/));
  });

  test("is taken by every tool that resolves ES modules, types included", async () => {
    // It fails for what is wrong within the profile, and says what.
    const { stdout } = await run("npx", ["attw", tarball, "--profile", "esm-only", "--no-color", "--no-emoji"], {
      cwd: root,
    });
    for (const [name] of entries) expect(stdout).toContain(`threadline${name.slice(1)}`);
  });

  test("has nothing that publint would mend", async () => {
    const { messages } = await publint({ pkgDir: root, strict: true });
    expect(messages).toEqual([]);
  });
});

describe("what an application loads", () => {
  test("the client is at most 12 kB", async () => {
    const { first, all } = await bundle(`export * from "threadline"`);
    expect(gzipped(first)).toBeLessThanOrEqual(12_000);
    // With what is loaded only where no socket gets through, and by producers, whose runs that are taken up again are folded.
    const fold = await bundle(`export * from "threadline/conversation"`);
    expect(gzipped(all)).toBeLessThanOrEqual(12_000 + 2_000 + 3_000 + gzipped(fold.first));
  });

  test("the fold is at most 6 kB, the hooks with all that they need 22 kB", async () => {
    expect(gzipped((await bundle(`export * from "threadline/conversation"`)).first)).toBeLessThanOrEqual(6_000);
    expect(gzipped((await bundle(`export * from "threadline/react"`)).first)).toBeLessThanOrEqual(22_000);
  });

  test.each(entries)("%s runs without Node", async (name) => {
    const specifier = `threadline${name.slice(1)}`;
    // A built-in that is needed would not be found, neither for a browser nor for a runtime at the edge.
    for (const platform of ["browser", "neutral"] as const) {
      const { all } = await bundle(`export * from "${specifier}"`, platform);
      expect(all).not.toMatch(/\b(process|Buffer|__dirname|require)\b[.(]/);
    }
  });

  test("what is not used is left out", async () => {
    const some = await bundle(`import { isProblem } from "threadline"; console.log(isProblem(null, "run-active"))`);
    expect(gzipped(some.first)).toBeLessThan(1_024);
    for (const entry of ["threadline", "threadline/conversation", "threadline/ag2b"]) {
      expect((await bundle(`import "${entry}"`)).first).toBe("");
    }
  });
});
