import type { Connection } from "./connection/connection.js";
import type { FollowOptions, ThreadItem } from "./connection/follow.js";
import { Items, THREAD_ITEMS } from "./connection/items.js";
import type { Followed, Subscription, Told } from "./connection/subscription.js";
import { ConnectionError } from "./errors.js";
import { type Http, segment } from "./http.js";
import { newId } from "./ids.js";
import { linesOf } from "./lines.js";
import type { Producer, RunOptions } from "./producer.js";
import { type Cancellable, type ReadOptions, Runs, type StartOptions } from "./runs.js";
import type {
  NewEvent,
  EventPage,
  MessagesPage,
  Run,
  RunPage,
  StartedRun,
  Thread,
  ThreadPage,
  ThreadState,
  ThreadSubscriptions,
} from "./types.js";

export interface ListOptions extends ReadOptions {
  /** Only threads of this agent. */
  readonly agentId?: string;
  /**
   * Only threads whose name has this text in it, whatever the case and the accents of its letters. A page may be short or
   * empty and have a `nextCursor` all the same: one request looks at 10,000 names.
   */
  readonly search?: string;
  readonly includeArchived?: boolean;
  /** `recent` (default): by last run, else last edit, newest first. `created`: oldest first. */
  readonly order?: "recent" | "created";
  /** 1 to 500; 50 if not given. */
  readonly limit?: number;
  /** `nextCursor` of the page before. */
  readonly cursor?: string;
  /** Whose threads, if an API key is used without a user. */
  readonly userId?: string;
}

export interface NewThread extends Cancellable {
  /** Made up if absent. */
  readonly threadId?: string;
  readonly name?: string;
  /** The agent it is made for. */
  readonly agentId?: string;
  readonly metadata?: Readonly<Record<string, unknown>>;
  /** The owner, if an API key is used without a user. */
  readonly userId?: string;
}

/** What is to be different. What is absent stays. */
export interface ThreadEdit extends Cancellable {
  /** null takes the name away. */
  readonly name?: string | null;
  readonly archived?: boolean;
  /** A merge patch (RFC 7396). */
  readonly metadata?: Readonly<Record<string, unknown>>;
}

/** A user's threads. */
export class Threads {
  readonly #http: Http;

  constructor(http: Http) {
    this.#http = http;
  }

  /** A page of the list. */
  list(options: ListOptions = {}): Promise<ThreadPage> {
    const { signal, retryFor, ...query } = options;
    return this.#http.call({ path: ["threads"], query, signal, retryFor });
  }

  /** Makes a thread. The same one again is the same thread; another one with an id that is taken is `thread-exists`. */
  create(options: NewThread = {}): Promise<Thread> {
    const { signal, threadId = newId(), ...members } = options;
    return this.#http.call({ method: "POST", path: ["threads"], body: { threadId, ...members }, signal });
  }
}

/** Whether a thread has something new for its user: events behind `readSeq`, and no run that is still at work on more. */
export function isUnread(thread: Thread): boolean {
  return thread.activeRun === null && thread.tail > thread.readSeq;
}

/** One thread, by its id. Made without a request: whether it exists shows with the first one. */
export class ThreadRef {
  readonly threadId: string;
  readonly #http: Http;
  readonly #connection: Connection;
  readonly #runs: Runs;
  readonly #path: readonly string[];

  constructor(http: Http, connection: Connection, threadId: string) {
    this.threadId = threadId;
    this.#runs = new Runs(http, threadId);
    this.#http = http;
    this.#connection = connection;
    this.#path = ["threads", threadId];
  }

  get({ signal, retryFor }: ReadOptions = {}): Promise<Thread> {
    return this.#http.call({ path: this.#path, signal, retryFor });
  }

  update(edit: ThreadEdit): Promise<Thread> {
    const { signal, ...body } = edit;
    return this.#http.call({ method: "PATCH", path: this.#path, body, signal });
  }

  rename(name: string | null, options: Cancellable = {}): Promise<Thread> {
    return this.update({ name, ...options });
  }

  archive(options: Cancellable = {}): Promise<Thread> {
    return this.update({ archived: true, ...options });
  }

  unarchive(options: Cancellable = {}): Promise<Thread> {
    return this.update({ archived: false, ...options });
  }

  /** Says up to which event its user has read it: only forward, and not beyond the tail (`cursor-ahead`). The feed tells of it. */
  markRead(seq: number, { signal }: Cancellable = {}): Promise<Thread> {
    return this.#http.call({ method: "PUT", path: [...this.#path, "read"], body: { seq }, signal });
  }

  /** Who follows it at this moment, and how far each is. */
  subscriptions({ signal, retryFor }: ReadOptions = {}): Promise<ThreadSubscriptions> {
    return this.#http.call({ path: [...this.#path, "subscriptions"], signal, retryFor });
  }

  /** Deletes it and all of its log, for ever. An active run is over. */
  async delete({ signal }: Cancellable = {}): Promise<void> {
    await this.#http.call({ method: "DELETE", path: this.#path, signal });
  }

  /** The messages, as AG-UI has them, after the event with seq `at`, or now. */
  messages(
    options: ReadOptions & { at?: number; epoch?: string; limit?: number; before?: string } = {},
  ): Promise<MessagesPage> {
    const { signal, retryFor, ...query } = options;
    return this.#http.call({ path: [...this.#path, "messages"], query, signal, retryFor });
  }

  /** The state after the event with seq `at`, or now. */
  state(options: ReadOptions & { at?: number; epoch?: string } = {}): Promise<ThreadState> {
    const { signal, retryFor, ...query } = options;
    return this.#http.call({ path: [...this.#path, "state"], query, signal, retryFor });
  }

  /** A page of events: behind the cursor `after`, or the newest below `before`. */
  events(
    options: ReadOptions & { after?: number; before?: number; limit?: number; epoch?: string; runId?: string } = {},
  ): Promise<EventPage> {
    const { signal, retryFor, ...query } = options;
    return this.#http.call({ path: [...this.#path, "events"], query, signal, retryFor });
  }

  /**
   * The log behind the cursor `after`, up to what is its newest event now: a line each, `{"seq":…,"runId":…,"at":…,"event":…}`. The
   * event stands there byte for byte as it was appended, with numbers that JavaScript cannot hold and members that are there
   * twice. Leaving the iterator ends the request; one that breaks off throws a `ConnectionError`: go on behind the last line.
   */
  async *lines(
    options: Cancellable & { after?: number; epoch?: string; runId?: string } = {},
  ): AsyncGenerator<string, undefined> {
    const { signal, ...query } = options;
    const headers = { Accept: "application/x-ndjson" };
    const { over, done } = this.#http.begin(signal);
    const call = { path: [...this.#path, "events"], query: { after: 0, ...query }, headers, signal: over.signal };
    try {
      return yield* linesOf(await this.#http.retrying(() => this.#http.open(call), call), over.signal);
    } finally {
      done();
    }
  }

  /**
   * Follows the thread from a cursor on, for ever: first what is there, then what comes, through breaks of the connection. An
   * iterator, which begins with the first `next()`; it throws where no reconnect can help (`thread-not-found`,
   * `log-replaced`, `cursor-ahead`, `unauthorized`).
   */
  subscribe(options: FollowOptions & Cancellable = {}): AsyncIterableIterator<ThreadItem, undefined> {
    return new Items(THREAD_ITEMS, options.signal, (told) => this.#follow({ ...options, ...told }));
  }

  /** The same with a listener, from now on. */
  follow(options: FollowOptions & Told<ThreadItem>): Followed {
    return this.#follow(options);
  }

  #follow(options: FollowOptions & Told<ThreadItem>): Subscription<ThreadItem> {
    // An id that cannot stand in a path would end what else is followed, where each has a request of its own.
    segment(this.threadId);
    return this.#connection.follow(this.threadId, options);
  }

  /** Has an agent do a run. It goes on whoever stays to see it; follow the thread for its events. */
  start(options: StartOptions): Promise<StartedRun> {
    return this.#runs.start(options);
  }

  /** Asks a run to stop. Its producer has 10 s to end it; then the server does. */
  stop(runId: string, options: Cancellable = {}): Promise<Run> {
    return this.#runs.stop(runId, options);
  }

  /** The runs, newest first. */
  runs(options: ReadOptions & { limit?: number; cursor?: number; at?: number } = {}): Promise<RunPage> {
    return this.#runs.list(options);
  }

  /** What is known of a run. */
  runRecord(runId: string, options: ReadOptions = {}): Promise<Run> {
    return this.#runs.get(runId, options);
  }

  /**
   * Appends a finished run whole: all of it or nothing, and nothing if it is there already. Waits while another run is
   * active, for up to a minute. A TEXT_MESSAGE_CHUNK without a `messageId` belongs to a message as it does in `Producer.append`.
   */
  putRun(
    runId: string,
    events: readonly NewEvent[],
    options: Cancellable & { agentId?: string } = {},
  ): Promise<StartedRun> {
    return this.#runs.put(runId, events, options);
  }

  /**
   * Does a run: starts it, keeps its lease while `body` appends events, and ends it, well or badly as `body` does.
   * Resolves to the run as it ended; rejects with what `body` throws, or with what went wrong on the way. If the run is
   * asked to stop, `run.signal` is aborted: a body that gives up then has done what was wanted.
   *
   * A problem `run-active` if another run is active. A run of the given id that has ended already is returned as it is; of one
   * that has stored events, and has not ended, see `onResume`.
   */
  run(body: (run: Producer) => unknown, options: RunOptions = {}): Promise<Run> {
    return produced(this.#runs, this, body, options);
  }
}

/** Few pages produce, and only they load the code of that. */
async function produced(...run: Parameters<typeof import("./produce.js").produce>): Promise<Run> {
  const { produce } = await import("./produce.js").catch((cause: unknown) => {
    throw new ConnectionError("cannot load the code of producers", { cause });
  });
  return produce(...run);
}
