// Requests as commands, for a POSIX shell. Keys and tokens are never in them: they are variables of the shell.

/** The caller, and the server. */
export interface Asker {
  /** The address of the server; a path of it is kept. */
  readonly url: string;
  /** What kind of credential there is; none in development mode. */
  readonly credential: "key" | "token" | null;
  readonly user?: string | undefined;
  readonly project?: string | undefined;
}

export interface Request {
  readonly method?: "GET" | "POST" | "DELETE";
  /** The path behind `/v1`, in segments that are not escaped yet. */
  readonly path: readonly string[];
  /** What is undefined is left out. */
  readonly query?: Readonly<Record<string, string | number | undefined>>;
  readonly body?: unknown;
  /** As an event stream, for ever. */
  readonly isStream?: boolean;
}

/** A word of a POSIX shell that means this text and nothing else. */
export function quote(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/** The command that makes a request. */
export function curl({ url, credential, user, project }: Asker, request: Request): string {
  const { method = "GET", path, query = {}, body, isStream } = request;
  const target = new URL(url);
  target.pathname = [target.pathname.replace(/\/$/, ""), "v1", ...path.map(encodeURIComponent)].join("/");
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined) target.searchParams.set(name, String(value));
  }
  const words = ["curl -sS"];
  if (isStream) words.push("-N");
  if (method !== "GET") words.push(`-X ${method}`);
  // Brackets and braces are patterns to curl.
  words.push(quote(target.href.replace(/[[\]{}]/g, escape)));
  const lines = [words.join(" ")];
  if (credential === "key") lines.push('-H "Authorization: Bearer $THREADLINE_API_KEY"');
  if (credential === "token") lines.push('-H "Authorization: Bearer $THREADLINE_TOKEN"');
  if (user) lines.push(`-H ${quote(`Threadline-User: ${user}`)}`);
  if (project) lines.push(`-H ${quote(`Threadline-Project: ${project}`)}`);
  if (isStream) lines.push("-H 'Accept: text/event-stream'");
  if (body !== undefined) {
    lines.push("-H 'Content-Type: application/json'");
    lines.push(`--data-raw ${quote(JSON.stringify(body))}`);
  }
  return lines.join(" \\\n  ");
}

/** An address with a literal of IPv6 keeps its brackets: curl knows those. */
function escape(bracket: string, at: number, all: string): string {
  const isHost = at < all.indexOf("/", all.indexOf("//") + 2);
  return isHost ? bracket : `%${bracket.charCodeAt(0).toString(16).toUpperCase()}`;
}

/** What a command does, and the command. */
export interface Command {
  readonly name: string;
  readonly text: string;
}

/** What one looks at. */
export interface Subject {
  readonly threadId: string;
  readonly agentId: string | null;
  /** The run that can be stopped. */
  readonly runId: string | undefined;
  /** Seq that is shown; undefined is now. */
  readonly at: number | undefined;
  /** The cursor to continue from: seq of the last event before the wanted ones. */
  readonly after: number;
  /** The epoch of the log. */
  readonly epoch: string;
}

/** The commands about a thread. */
export function commands(asker: Asker, { threadId, agentId, runId, at, after, epoch }: Subject): Command[] {
  const path = ["threads", threadId];
  const events = [...path, "events"];
  const moment = at === undefined ? "now" : `at ${at}`;
  const say = { agentId: agentId ?? "demo", input: { messages: [{ role: "user", content: "Hello" }] } };
  const all: (readonly [string, Request])[] = [
    ["Get the thread", { path }],
    [`Events after ${after}`, { path: events, query: { after, epoch, limit: 100 } }],
    [`Follow from ${after} (SSE)`, { path: events, query: { after, epoch }, isStream: true }],
    [`Messages ${moment}`, { path: [...path, "messages"], query: { at } }],
    [`State ${moment}`, { path: [...path, "state"], query: { at } }],
    ["Start a run", { method: "POST", path: [...path, "runs"], body: say }],
  ];
  if (runId !== undefined) all.push(["Stop the run", { method: "POST", path: [...path, "runs", runId, "stop"] }]);
  all.push(["Delete the thread", { method: "DELETE", path }]);
  return all.map(([name, request]) => ({ name, text: curl(asker, request) }));
}

/** The command that gets just this event. */
export function eventCommand(asker: Asker, threadId: string, epoch: string, seq: number): string {
  return curl(asker, { path: ["threads", threadId, "events"], query: { after: seq - 1, epoch, limit: 1 } });
}
