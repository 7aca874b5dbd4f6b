// Builds the console into dist/, which is committed: `cargo build` embeds it and needs no Node.
//
//   node build.mjs           writes dist/
//   node build.mjs --check   fails if dist/ is not what would be written
//   node build.mjs --serve   on http://localhost:5174, against the server on http://localhost:7420 (PORT=… SERVER=…: others),
//                            built anew with each reload

import { readdir, readFile, rm, mkdir, writeFile } from "node:fs/promises";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import * as esbuild from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const dist = join(here, "dist");
const serving = process.argv.includes("--serve");

const options = {
  absWorkingDir: here,
  entryPoints: { app: "src/main.tsx" },
  outdir: "dist",
  bundle: true,
  format: "esm",
  target: ["es2022", "chrome123", "firefox120", "safari17.5"],
  jsx: "automatic",
  minify: !serving,
  legalComments: "none",
  metafile: true,
  write: false,
  logLevel: "warning",
  // The package is linked and has a React of its own beside it, for its tests.
  alias: { react: "./node_modules/react" },
  define: {
    "process.env.NODE_ENV": serving ? '"development"' : '"production"',
    SERVER: serving ? JSON.stringify(process.env.SERVER ?? "http://localhost:7420") : "undefined",
  },
};

if (serving) {
  const context = await esbuild.context({ ...options, outdir: "static", sourcemap: "inline" });
  const { port } = await context.serve({
    servedir: join(here, "static"),
    port: Number(process.env.PORT ?? 5174),
    host: "localhost",
  });
  console.log(`http://localhost:${port}`);
} else {
  const built = await files();
  if (process.argv.includes("--check")) await check(built);
  else await write(built);
}

/** What dist/ has to hold, by name. */
async function files() {
  const { outputFiles, metafile, warnings } = await esbuild.build(options);
  // What esbuild only warns of, such as CSS that it cannot read, does not work in a browser either.
  if (warnings.length > 0) process.exit(1);
  const all = new Map(outputFiles.map(({ path, contents }) => [relative(dist, path), Buffer.from(contents)]));
  for (const name of await readdir(join(here, "static"))) all.set(name, await readFile(join(here, "static", name)));
  all.set("licenses.txt", Buffer.from(await licenses(Object.keys(metafile.inputs))));
  return all;
}

/** The licences of the packages that are in the bundle, as they ask for. */
async function licenses(inputs) {
  const folders = new Set();
  for (const input of inputs) {
    const found = /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(input);
    if (found) folders.add(found[1]);
  }
  const texts = [];
  for (const folder of [...folders].sort()) {
    const { name, version, license } = JSON.parse(await readFile(join(here, folder, "package.json"), "utf8"));
    const file = (await readdir(join(here, folder))).find((each) => /^licen[cs]e(\.|$)/i.test(each));
    if (!file) throw new Error(`${name} has no licence file`);
    texts.push(`${name} ${version} (${license})\n\n${(await readFile(join(here, folder, file), "utf8")).trim()}\n`);
  }
  return texts.join(`\n${"-".repeat(80)}\n\n`);
}

async function write(built) {
  await rm(dist, { recursive: true, force: true });
  await mkdir(dist);
  for (const [name, contents] of built) await writeFile(join(dist, name), contents);
  for (const [name, contents] of built) console.log(`${name} ${(contents.length / 1000).toFixed(1)} kB`);
}

async function check(built) {
  const there = await readdir(dist).catch(() => []);
  const wrong = there.filter((name) => !built.has(name));
  for (const [name, contents] of built) {
    const committed = await readFile(join(dist, name)).catch(() => undefined);
    if (!committed?.equals(contents)) wrong.push(name);
  }
  if (wrong.length === 0) return;
  console.error(`${resolve(dist)} is not what is built from the source: ${wrong.join(", ")}. Run: npm run build`);
  process.exit(1);
}
