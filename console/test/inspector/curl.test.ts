import { execFile, spawn } from "node:child_process";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { Server } from "../../../sdk/typescript/test/harness/server.js";
import { sign } from "../../../sdk/typescript/test/harness/token.js";
import { until } from "../../../sdk/typescript/test/harness/until.js";
import { epochOf, log, makeThread, write } from "../../../sdk/typescript/test/harness/writer.js";
import { type Asker, commands, curl, eventCommand, quote, type Subject } from "../../src/inspector/curl.ts";

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const KEY = "the-operator-of-the-tests";
const ODD_IDS = [
  "plain",
  "it's",
  'a "quoted" one',
  "sp ace",
  "ünïcødé 💬",
  "$HOME `id` $(id) \\ !x",
  "a/b?c#d&e=f%20",
  "[x]{y}*~",
];

let server: Server;
beforeAll(async () => {
  server = await Server.start({ apiKey: KEY });
});
afterAll(() => server?.end());

/** The output of a command, in a shell that has the key. */
async function printed(shell: string, command: string, env: Record<string, string> = {}): Promise<string> {
  const { PATH = "", HOME = "" } = process.env;
  const options = { env: { PATH, HOME, THREADLINE_API_KEY: KEY, ...env } };
  return (await promisify(execFile)(shell, ["-c", command], options)).stdout;
}

const asker = (user: string): Asker => ({ url: server.url, credential: "key", user, project: undefined });

test.each(["bash", "sh"])("a quoted text is the same text to %s", async (shell) => {
  const texts = [...ODD_IDS, "", "'", "''", "'\\''", "two\nlines", "-n", "*", "\ttab"];
  const said = await printed(shell, `printf '<%s>\\n' ${texts.map(quote).join(" ")}`);
  expect(said).toBe(texts.map((text) => `<${text}>\n`).join(""));
});

test("a command never contains a key or a token, and names the user", () => {
  const command = curl(
    { url: "https://threads.example/base/", credential: "token", user: "o'neil", project: "shop" },
    { path: ["threads", "a b"], query: { after: 3, epoch: undefined } },
  );
  expect(command).toBe(
    [
      "curl -sS 'https://threads.example/base/v1/threads/a%20b?after=3'",
      '-H "Authorization: Bearer $THREADLINE_TOKEN"',
      String.raw`-H 'Threadline-User: o'\''neil'`,
      "-H 'Threadline-Project: shop'",
    ].join(" \\\n  "),
  );
  expect(curl({ url: "http://localhost:1", credential: null }, { path: ["threads"] })).toBe(
    "curl -sS 'http://localhost:1/v1/threads'",
  );
});

test("an address of IPv6 keeps its brackets", () => {
  const command = curl({ url: "http://[::1]:7420", credential: null }, { path: ["threads", "[x]"] });
  expect(command).toBe("curl -sS 'http://[::1]:7420/v1/threads/%5Bx%5D'");
});

// The tests above check how unusual characters are quoted.
test.each(["plain", ODD_IDS.join(" ")])("each command about the thread %j works", async (threadId) => {
  const user = "o'neil";
  await makeThread(server, threadId, user);
  const runId = await write(server, threadId, { user, deltas: 20, runId: `run of ${threadId}` });
  const events = await log(server, threadId, user);
  const who = asker(user);
  const epoch = await epochOf(server, threadId, user);
  const subject: Subject = { threadId, agentId: null, runId, at: 9, after: 4, epoch };
  const all = new Map(commands(who, subject).map(({ name, text }) => [name, text]));
  expect([...all.keys()]).toEqual([
    "Get the thread",
    "Events after 4",
    "Follow from 4 (SSE)",
    "Messages at 9",
    "State at 9",
    "Start a run",
    "Stop the run",
    "Delete the thread",
  ]);
  const answer = async (name: string) => JSON.parse(await printed("bash", all.get(name)!)) as Record<string, unknown>;

  expect(await answer("Get the thread")).toMatchObject({ threadId, userId: user, tail: events.length });
  expect(await answer("Events after 4")).toMatchObject({ epoch, events: events.slice(4) });
  expect(await answer("Messages at 9")).toMatchObject({ seq: 9 });
  expect(await answer("State at 9")).toMatchObject({ seq: 9, state: {} });
  const one = JSON.parse(await printed("bash", eventCommand(who, threadId, epoch, 7))) as { events: unknown[] };
  expect(one.events).toEqual([events[6]]);
  expect(await answer("Stop the run")).toMatchObject({ runId, status: "finished" });
  expect(await followed(all.get("Follow from 4 (SSE)")!)).toMatch(/^id: /m);
  const started = await answer("Start a run");
  expect(started).toMatchObject({ run: { agentId: "demo", firstSeq: events.length + 1 } });
  expect(await printed("bash", all.get("Delete the thread")!)).toBe("");
  expect(await answer("Get the thread")).toMatchObject({ status: 404 });
});

test("a user's token is taken from its variable", async () => {
  const secret = await server.cli("projects", "renew-secret", "default");
  const token = sign(secret, { sub: "anna", exp: Date.now() / 1_000 + 60 });
  const threadId = await makeThread(server, undefined, "anna");
  const [get] = commands(
    { url: server.url, credential: "token" },
    { threadId, agentId: null, runId: undefined, at: undefined, after: 0, epoch: "" },
  );
  const answer = await printed("bash", get!.text, { THREADLINE_TOKEN: token });
  expect(JSON.parse(answer)).toMatchObject({ threadId, userId: "anna" });
});

/** The first output of a command that never ends. */
async function followed(command: string): Promise<string> {
  const { PATH = "", HOME = "" } = process.env;
  const child = spawn("bash", ["-c", `exec ${command}`], { env: { PATH, HOME, THREADLINE_API_KEY: KEY } });
  let said = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => void (said += text));
  try {
    return await until("an event of the stream", () =>
      /^event: events?$/m.test(said) || /^id: /m.test(said) ? said : "",
    );
  } finally {
    child.kill("SIGKILL");
  }
}
