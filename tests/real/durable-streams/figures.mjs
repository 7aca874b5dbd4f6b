// Appends and catch-up reads of Durable Streams servers, one after the other: node figures.mjs BASE_URL [BASE_URL …], where streams are at
// BASE_URL/v1/stream/…. Compare release builds on an idle machine only.

import { performance } from "node:perf_hooks";

const MESSAGES = 100_000;
const BATCH = 1_000;
const APPENDS = 1_000;
const WRITERS = 16;
const headers = { "Content-Type": "application/json" };

async function send(url, method, body) {
  const response = await fetch(url, { method, headers, body });
  if (!response.ok) throw new Error(`${method} ${url}: ${response.status} ${await response.text()}`);
  return response;
}

async function seconds(work) {
  const begun = performance.now();
  await work();
  return (performance.now() - begun) / 1_000;
}

/** Small appends of one writer, or of several to a stream each. */
async function appends(base, writers) {
  const streams = Array.from({ length: writers }, (_, index) => `${base}/v1/stream/figures-${Date.now()}-${index}`);
  for (const url of streams) await send(url, "PUT");
  const each = APPENDS / writers;
  const write = async (url) => {
    for (let n = 0; n < each; n += 1) await send(url, "POST", JSON.stringify({ n }));
  };
  return (each * writers) / (await seconds(() => Promise.all(streams.map(write))));
}

/** Messages a second of a reader that begins at the beginning. */
async function catchUp(base) {
  const url = `${base}/v1/stream/figures-${Date.now()}-catch-up`;
  await send(url, "PUT");
  for (let first = 0; first < MESSAGES; first += BATCH) {
    const batch = Array.from({ length: BATCH }, (_, n) => ({ type: "TEXT_MESSAGE_CONTENT", delta: `word ${first + n}` }));
    await send(url, "POST", JSON.stringify(batch));
  }
  let read = 0;
  const took = await seconds(async () => {
    for (let offset = "-1", more = true; more; ) {
      const page = await fetch(`${url}?offset=${offset}`);
      read += (await page.json()).length;
      offset = page.headers.get("stream-next-offset");
      more = page.headers.get("stream-up-to-date") !== "true";
    }
  });
  if (read !== MESSAGES) throw new Error(`${read} of ${MESSAGES} messages were read`);
  return MESSAGES / took;
}

for (const base of process.argv.slice(2)) {
  const [one, many, read] = [await appends(base, 1), await appends(base, WRITERS), await catchUp(base)].map(Math.round);
  console.log(`${base}: ${one} appends/s of one writer, ${many} of ${WRITERS}, catch-up ${read} messages/s`);
}
