// The package in other JavaScript runtimes, against the real server.

import { execFile } from "node:child_process";
import { copyFileSync, existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { build } from "esbuild";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Server } from "../harness/server.js";
import { type Options, type Report, TEXT } from "./program.js";

const run = promisify(execFile);
const here = (name: string) => fileURLToPath(new URL(name, import.meta.url));
const API_KEY = "the-operator-of-the-runtimes-tests";
/** Bounds a program that hangs, also on a busy machine. */
const LONGEST_MS = 80_000;

const folder = mkdtempSync(join(tmpdir(), "threadline-runtimes-"));
let server: Server;

beforeAll(async () => {
  const entryPoints = [here("main.ts"), here("worker.ts")];
  // One file for each program, so that every runtime executes the same code.
  const bundles = build({
    entryPoints,
    outdir: folder,
    bundle: true,
    format: "esm",
    platform: "neutral",
    target: "es2022",
  });
  [server] = await Promise.all([Server.start({ apiKey: API_KEY }), bundles]);
  copyFileSync(here("workerd.capnp"), join(folder, "workerd.capnp"));
  writeFileSync(join(folder, "package.json"), JSON.stringify({ type: "module" }));
});

afterAll(async () => {
  await server?.end();
  rmSync(folder, { recursive: true, force: true });
});

/** The program of a package: of the one for this platform, if there are several. */
function program(...names: string[]): string {
  const platform = (name: string) =>
    name.replace("ARCH", process.arch).replace("CPU", process.arch === "x64" ? "64" : process.arch);
  const path = here(`node_modules/${platform(names.join("/"))}`);
  if (!existsSync(path)) throw new Error(`${path} is missing: scripts/setup.sh test installs the runtimes`);
  return path;
}

const MAIN = join(folder, "main.js");
const STREAMS = ["sse", "long-poll"] as const;
const ALL = ["websocket", ...STREAMS] as const;

interface Runtime {
  readonly name: string;
  readonly command: () => string;
  readonly args: (options: string) => string[];
  readonly transports: Options["transports"];
}

const RUNTIMES: readonly Runtime[] = [
  {
    name: `Node ${process.versions.node}, which runs the tests`,
    command: () => process.execPath,
    args: (options) => [MAIN, options],
    // Node has a WebSocket class from version 22 on.
    transports: typeof WebSocket === "undefined" ? STREAMS : ALL,
  },
  {
    name: "Node 22",
    command: () => program("node-linux-ARCH/bin/node"),
    args: (options) => [MAIN, options],
    transports: ALL,
  },
  {
    name: "Bun",
    command: () => program(`@oven/bun-linux-${process.arch === "x64" ? "x64" : "aarch64"}/bin/bun`),
    args: (options) => [MAIN, options],
    transports: ALL,
  },
  {
    name: "Deno",
    command: () => program("@deno/linux-ARCH-glibc/deno"),
    args: (options) => ["run", "--no-config", "--no-remote", "--allow-net", MAIN, options],
    transports: ALL,
  },
  {
    name: "workerd",
    command: () => program("@cloudflare/workerd-linux-CPU/bin/workerd"),
    args: (options) => {
      writeFileSync(join(folder, "options.json"), options);
      return ["test", join(folder, "workerd.capnp")];
    },
    transports: ALL,
  },
];

test.each(RUNTIMES)("$name follows, produces, reads and stops", async ({ command, args, transports }) => {
  const options: Options = { url: server.url, apiKey: API_KEY, transports };
  const { PATH = "", HOME = folder } = process.env;
  const env = { PATH, HOME, NO_COLOR: "1", DENO_NO_UPDATE_CHECK: "1", DO_NOT_TRACK: "1" };
  const { stdout, stderr } = await run(command(), args(JSON.stringify(options)), {
    cwd: folder,
    env,
    timeout: LONGEST_MS,
  });
  const line = `${stdout}\n${stderr}`.split("\n").find((each) => each.includes('{"followed"'));
  const report = JSON.parse(line!.slice(line!.indexOf("{"))) as Report;
  const text = TEXT.join("");
  expect(report).toEqual({
    followed: transports.map((transport) => ({ transport, text })),
    messages: [text],
    stopped: "stopped",
  });
});
