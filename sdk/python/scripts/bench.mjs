// Appends COUNT events by the producer of the TypeScript package, and prints the seconds.
// usage: bench.mjs PACKAGE URL COUNT    PACKAGE: the folder of the built package
import { pathToFileURL } from "node:url";

const [folder, url, count] = process.argv.slice(2);
const { Threadline } = await import(pathToFileURL(`${folder}/dist/index.js`).href);
const client = new Threadline({ url, ...(process.env.THREADLINE_API_KEY ? { apiKey: process.env.THREADLINE_API_KEY } : {}), user: "bench" });
const { threadId } = await client.threads.create();
const began = performance.now();
await client.thread(threadId).run({}, async (run) => {
  const text = run.text();
  for (let at = 0; at < Number(count); at++) await text.write("word ");
});
console.log((performance.now() - began) / 1_000);
await client.close?.();
process.exit(0);
