// Engines that lack what the package does not need, as React Native's: a program without these parts runs a run, and follows it.

import { execFile } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { build } from "esbuild";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Server } from "./harness/server.js";

const root = fileURLToPath(new URL("..", import.meta.url));
let server: Server;
let folder = "";
beforeAll(async () => {
  server = await Server.start();
  folder = mkdtempSync(join(tmpdir(), "threadline-engine-"));
});
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  await server?.end();
});

/** Runs before the package is loaded. */
const LACKING = `
  const { request } = await import("node:http");
  // Loaded while its own needs are there.
  new Headers();
  // As in React Native, a response has no stream. Node's own fetch needs some of what is deleted.
  const plainFetch = (address, { method, headers, body, signal }) =>
    new Promise((resolve, reject) => {
      const sent = request(address, { method, headers: Object.fromEntries(headers) }, (answer) => {
        const parts = [];
        answer.on("data", (part) => parts.push(part));
        answer.on("error", reject);
        answer.on("end", () => {
          const { statusCode: status } = answer;
          const text = async () => Buffer.concat(parts).toString();
          const get = (name) => answer.headers[name.toLowerCase()] ?? null;
          resolve({ ok: status < 300, status, type: "basic", headers: { get }, text });
        });
      });
      signal?.addEventListener("abort", () => sent.destroy(new Error("aborted")));
      sent.on("error", reject);
      sent.end(body);
    });
  const methods = ["throwIfAborted", "reason"];
  for (const name of methods) delete AbortSignal.prototype[name];
  for (const name of ["any", "timeout", "abort"]) delete AbortSignal[name];
  for (const name of ["crypto", "performance", "structuredClone", "DOMException"]) delete globalThis[name];
  for (const name of ["crypto", "performance", "structuredClone", "DOMException"]) {
    if (name in globalThis) throw new Error(name + " is still there");
  }
  // As far as URL goes in earlier versions of React Native.
  const { URL } = globalThis;
  globalThis.URL = class { constructor(address) { this.href = new URL(address).href; } };
`;

const PROGRAM = `
  const { Threadline } = await import("./index.js");
  const client = new Threadline({ url: process.argv[2], transports: ["long-poll"], fetch: plainFetch });
  const thread = client.thread((await client.threads.create()).threadId);
  const seen = [];
  const over = new Promise((resolve, reject) => {
    thread.follow({
      onItem: (item) => {
        if (item.type !== "events") return;
        for (const { events } of item.batches) seen.push(...events);
        if (seen.some(({ type }) => type === "RUN_FINISHED")) resolve();
      },
      onError: reject,
    });
  });
  const run = await thread.run({}, async (run) => {
    for (const delta of ["Hello", ", ", "world"]) await run.append({ type: "TEXT_MESSAGE_CHUNK", delta });
  });
  await over;
  const text = seen.map(({ delta = "" }) => delta).join("");
  const { messages } = await thread.messages();
  // A reason of an abort is that of the caller, or an error.
  const stop = new AbortController();
  stop.abort();
  const aborted = await thread.get({ signal: stop.signal }).catch((error) => error.name);
  const { threadId } = await client.threads.create();
  const listing = client.thread(threadId).subscribe().next();
  client.close();
  const closed = await client.threads.list().catch((error) => error.name);
  console.log(JSON.stringify({ status: run.status, text, shown: messages.length, aborted, closed }));
  await listing.catch(() => {});
`;

test("a run and its reader need no crypto, no performance and no newer parts of AbortSignal", async () => {
  await build({
    entryPoints: [join(root, "src/index.ts")],
    bundle: true,
    splitting: true,
    format: "esm",
    target: "es2022",
    outdir: folder,
    logLevel: "silent",
  });
  const program = join(folder, "program.mjs");
  writeFileSync(join(folder, "package.json"), JSON.stringify({ type: "module" }));
  writeFileSync(program, LACKING + PROGRAM);
  const { stdout } = await promisify(execFile)(process.execPath, [program, server.url], { timeout: 60_000 });
  expect(JSON.parse(stdout)).toEqual({
    status: "finished",
    text: "Hello, world",
    shown: 1,
    aborted: "AbortError",
    closed: "ClosedError",
  });
});

test("no other file reaches for what src/platform.ts stands in for", () => {
  const found = readdirSync(join(root, "src"), { recursive: true, encoding: "utf8" })
    // Adapters for frameworks of backends.
    .filter((path) => path.endsWith(".ts") && !/^(agentkit|ag2b)\//.test(path))
    .filter((path) => !["platform.ts", "ids.ts"].includes(path))
    .flatMap((path) =>
      readFileSync(join(root, "src", path), "utf8")
        .split("\n")
        .flatMap((line, at) => {
          const code = line.replace(/^\s*(\/\/|\/?\*).*/, "");
          const used =
            /\.throwIfAborted\(|AbortSignal\.(any|timeout|abort)\(|\bcrypto\.|randomUUID|\bperformance\.|structuredClone\(|\.searchParams|new DOMException/.exec(
              code,
            );
          return used ? [`${path}:${at + 1}: ${used[0]}`] : [];
        }),
    );
  expect(found).toEqual([]);
});
