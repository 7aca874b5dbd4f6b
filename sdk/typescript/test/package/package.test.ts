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

/** The package's own modules that run in browsers, without peer dependencies. */
const entries = Object.entries(manifest.exports).flatMap(([name, target]) =>
  typeof target === "string" ? [] : [[name, target.default] as const],
);
const peers = ["react", "react/jsx-runtime", "@inngest/agent-kit", "ai"];

interface Bundled {
  /** The code that a page loads immediately: the entry and its imports. */
  readonly first: string;
  /** All code, also that which is loaded on demand. */
  readonly all: string;
  /** The code that a page has loaded once it has imported the modules of these names on demand. */
  chunks(...names: readonly string[]): string;
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
  const loaded = (paths: readonly string[]): string => {
    const seen = new Set<string>();
    const load = (path: string) => {
      if (seen.has(path) || !texts.has(path)) return;
      seen.add(path);
      for (const { path: imported, kind } of metafile.outputs[path]!.imports) {
        if (kind === "import-statement") load(imported);
      }
    };
    for (const path of paths) load(path);
    return [...seen].map((path) => texts.get(path)).join("");
  };
  const entry = Object.entries(metafile.outputs).find(([, { entryPoint }]) => entryPoint === "page.js")![0];
  const chunks = (...names: readonly string[]) => {
    const isNamed = (path: string) => names.some((name) => new RegExp(`/${name}-[A-Z0-9]+\\.js$`).test(path));
    return loaded([entry, ...[...texts.keys()].filter(isNamed)]);
  };
  return { first: loaded([entry]), all: [...texts.values()].join(""), chunks };
}

const gzipped = (text: string) => gzipSync(text, { level: 9 }).length;

describe("the published package", () => {
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

  test("contains the built modules, their types and sources, and their metadata", () => {
    const others = files.filter((path) => !/^(dist|src)\/.+\.(js|d\.ts|ts|tsx|map)$/.test(path));
    expect(others.sort()).toEqual(["LICENSE", "README.md", "package.json"]);
    for (const [, target] of entries) expect(files).toContain(target.slice(2));
    // Every source has its module and its types, and no file of an earlier build is left.
    const stems = (pattern: RegExp) => files.flatMap((path) => path.match(pattern)?.[1] ?? []).sort();
    expect(stems(/^dist\/(.+)\.js$/)).toEqual(stems(/^src\/(.+)\.tsx?$/));
    expect(stems(/^dist\/(.+)\.d\.ts$/)).toEqual(stems(/^src\/(.+)\.tsx?$/));
  });

  test("works with every tool that resolves ES modules, types included", async () => {
    // The check fails for errors within the profile, and describes them.
    const { stdout } = await run("npx", ["attw", tarball, "--profile", "esm-only", "--no-color", "--no-emoji"], {
      cwd: root,
    });
    for (const [name] of entries) expect(stdout).toContain(`threadline${name.slice(1)}`);
  });

  test("has no findings of publint", async () => {
    const { messages } = await publint({ pkgDir: root, strict: true });
    expect(messages).toEqual([]);
  });
});

describe("the code that an application loads", () => {
  test("the client is at most 12 kB, a producer 5.5 kB more with the fold, a stream that it pipes 3.5 kB more", async () => {
    const { first, all, chunks } = await bundle(`export * from "threadline"`);
    expect(gzipped(first)).toBeLessThanOrEqual(12_000);
    const fold = await bundle(`export * from "threadline/conversation"`);
    const producer = gzipped(chunks("produce")) - gzipped(first);
    expect(producer).toBeLessThanOrEqual(5_500 + gzipped(fold.first));
    const sources = ["ag-ui", "ui-chunks", "text-parts", "openai-chat", "openai-responses"];
    for (const source of sources) {
      // Each mapping comes with the reader of streams, and without the other mappings.
      const more = gzipped(chunks("produce", "pipe", source)) - gzipped(chunks("produce"));
      expect([source, more < 3_500]).toEqual([source, true]);
    }
    // Including all that is loaded on demand: also transports without sockets.
    expect(gzipped(all)).toBeLessThanOrEqual(12_000 + 2_000 + 5_500 + 6_500 + gzipped(fold.first));
  });

  test("the fold is at most 6 kB, the hooks with all dependencies 22 kB, either of them 17 kB", async () => {
    expect(gzipped((await bundle(`export * from "threadline/conversation"`)).first)).toBeLessThanOrEqual(6_000);
    expect(gzipped((await bundle(`export * from "threadline/react"`)).first)).toBeLessThanOrEqual(22_000);
    // Each hook is loaded without the others: a list without the fold.
    const alone = async (hook: string) =>
      gzipped((await bundle(`export { ThreadlineProvider, ${hook} } from "threadline/react"`)).first);
    expect(await alone("useThread")).toBeLessThanOrEqual(17_000);
    expect(await alone("useThreads")).toBeLessThanOrEqual(6_000);
  });

  test("a page loads the code of the hooks that it uses", async () => {
    const hooks = async (...names: string[]) =>
      gzipped((await bundle(`export { ThreadlineProvider, ${names} } from "threadline/react"`)).first);
    expect(await hooks("useThread")).toBeLessThanOrEqual(17_000);
    expect(await hooks("useThreads")).toBeLessThanOrEqual(5_000);
    expect(await hooks("useInbox")).toBeLessThanOrEqual(4_000);
    expect(await hooks("useAgents", "useConnectionStatus")).toBeLessThanOrEqual(3_000);
    // What a server calls loads neither React nor the hooks.
    const { first } = await bundle(`export * from "threadline/react/server"`);
    expect(gzipped(first)).toBeLessThanOrEqual(2_500);
    expect(first).not.toMatch(/from ?"react/);
  });

  test("the chats of the AI SDK are 2 kB beside the client: neither React nor the fold is loaded", async () => {
    const client = await bundle(`export * from "threadline"`);
    const both = await bundle(`export * from "threadline"; export * from "threadline/ai-sdk"`);
    expect(gzipped(both.first) - gzipped(client.first)).toBeLessThanOrEqual(2_000);
    const page = `export { ThreadlineChatTransport, toUIMessages } from "threadline/ai-sdk"`;
    const alone = await bundle(page);
    expect(gzipped(alone.all)).toBeLessThanOrEqual(5_000);
    expect(alone.all).not.toMatch(/from ?"react|TOOL_CALL_RESULT|MESSAGES_SNAPSHOT/);
  });

  test.each(entries)("%s runs without Node", async (name) => {
    const specifier = `threadline${name.slice(1)}`;
    // An import of a built-in module would fail, both in a browser and in an edge runtime.
    for (const platform of ["browser", "neutral"] as const) {
      const { all } = await bundle(`export * from "${specifier}"`, platform);
      expect(all).not.toMatch(/\b(process|Buffer|__dirname|require)\b[.(]/);
    }
  });

  test("unused code is left out", async () => {
    const some = await bundle(`import { isProblem } from "threadline"; console.log(isProblem(null, "run-active"))`);
    expect(gzipped(some.first)).toBeLessThan(1_024);
    for (const entry of [
      "threadline",
      "threadline/conversation",
      "threadline/react/server",
      "threadline/ag2b",
      "threadline/ai-sdk",
    ]) {
      expect((await bundle(`import "${entry}"`)).first).toBe("");
    }
  });
});
