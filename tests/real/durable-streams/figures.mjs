// Appends, catch-up reads and live readers of Durable Streams servers, one after the other: node figures.mjs BASE_URL [BASE_URL …], where streams are at
// BASE_URL/v1/stream/…. Compare release builds on an idle machine only.

import { once } from "node:events";
import { get } from "node:http";
import { performance } from "node:perf_hooks";

const MESSAGES = 100_000;
const BATCH = 1_000;
const APPENDS = 1_000;
const WRITERS = 16;
const READERS = 1_000;
const NEWS = 20;
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

/** Milliseconds from an append until a reader that follows with SSE has it, of all readers and appends: the median and p99. */
async function live(base) {
  const url = `${base}/v1/stream/figures-${Date.now()}-live`;
  await send(url, "PUT");
  const sent = [];
  const waits = [];
  const responses = [];
  const arrived = Array(NEWS).fill(0);
  for (let reader = 0; reader < READERS; reader += 1) {
    const request = get(`${url}?offset=now&live=sse`, { agent: false });
    const [response] = await once(request, "response");
    if (response.statusCode !== 200) throw new Error(`reader ${reader}: ${response.statusCode}`);
    responses.push(response);
    let next = 0;
    let text = "";
    response.setEncoding("utf8");
    response.on("error", () => {});
    response.on("data", (piece) => {
      text += piece;
      while (next < NEWS && text.includes(`"news":${next}}`)) {
        waits.push(performance.now() - sent[next]);
        arrived[next] += 1;
        next += 1;
      }
    });
  }
  for (let news = 0; news < NEWS; news += 1) {
    sent.push(performance.now());
    await send(url, "POST", JSON.stringify({ news }));
    while (arrived[news] < READERS) {
      if (performance.now() - sent[news] > 30_000) throw new Error(`${arrived[news]} of ${READERS} readers have ${news}`);
      await new Promise((done) => setTimeout(done, 5));
    }
  }
  for (const response of responses) response.destroy();
  waits.sort((a, b) => a - b);
  return [waits[waits.length >> 1], waits[Math.floor(waits.length * 0.99)]];
}

for (const base of process.argv.slice(2)) {
  const [one, many, read] = [await appends(base, 1), await appends(base, WRITERS), await catchUp(base)].map(Math.round);
  const [median, p99] = (await live(base)).map(Math.round);
  console.log(
    `${base}: ${one} appends/s of one writer, ${many} of ${WRITERS}, catch-up ${read} messages/s, ` +
      `${READERS} live readers p50 ${median} ms, p99 ${p99} ms`,
  );
}
