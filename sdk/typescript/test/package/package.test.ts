import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
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

async function bundle(contents: string, options: { platform?: "browser" | "neutral" } = {}): Promise<string> {
  const { outputFiles } = await build({
    stdin: { contents, resolveDir: root },
    bundle: true,
    minify: true,
    write: false,
    format: "esm",
    target: "es2022",
    platform: options.platform ?? "browser",
    external: peers,
    logLevel: "silent",
  });
  return outputFiles[0]!.text;
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
    expect(gzipped(await bundle(`export * from "threadline"`))).toBeLessThanOrEqual(12 * 1_024);
  });

  test.each(entries)("%s runs without Node", async (name) => {
    const specifier = `threadline${name.slice(1)}`;
    // A built-in that is needed would not be found, neither for a browser nor for a runtime at the edge.
    for (const platform of ["browser", "neutral"] as const) {
      const text = await bundle(`export * from "${specifier}"`, { platform });
      expect(text).not.toMatch(/\b(process|Buffer|__dirname|require)\b[.(]/);
    }
  });

  test("what is not used is left out", async () => {
    const some = await bundle(`import { isProblem } from "threadline"; console.log(isProblem(null, "run-active"))`);
    expect(gzipped(some)).toBeLessThan(1_024);
    const none = await bundle(`import "threadline"; import "threadline/conversation"; import "threadline/ag2b"`);
    expect(none).toBe("");
  });
});
