// Threads in the form of an export (proto/export.md), which `threadline import` reads: that way they have times of their own.

import { createHash } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";

const sha256 = (text) => createHash("sha256").update(text).digest("hex");
const lines = (values) => values.map((value) => `${JSON.stringify(value)}\n`).join("");

export async function writeExport(folder, threads) {
  const first = { format: "threadline-export", version: 1, madeBy: "threadline", madeAt: "2026-03-20T14:32:10.000Z" };
  const manifest = [{ ...first, selection: { user: "dev" } }];
  let count = 0;
  for (const { thread, runs, events } of threads) {
    const { projectId, threadId, userId, epoch, tail, version } = thread;
    const digits = sha256(`${projectId}\0${threadId}`).slice(0, 32);
    const file = `threads/${digits.slice(0, 2)}/${digits}.ndjson`;
    const text = lines([{ thread }, ...runs.map((run) => ({ run })), ...events]);
    await mkdir(dirname(join(folder, file)), { recursive: true });
    await writeFile(join(folder, file), text);
    const bytes = Buffer.byteLength(text);
    manifest.push({ thread: { projectId, threadId, userId, epoch, tail, version, file, bytes, sha256: sha256(text) } });
    count += tail;
  }
  const text = lines(manifest);
  const complete = { threads: threads.length, events: count, sha256: sha256(text) };
  await writeFile(join(folder, "manifest.ndjson"), text + lines([{ complete }]));
}
