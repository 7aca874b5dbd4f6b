import type { Config, Logger } from "../config.js";
import { ClosedError, nameOf } from "../errors.js";
import type { Http } from "../http.js";
import { SLOW_MS, SUBSCRIPTIONS } from "../limits.js";
import { guarded, throwIfAborted } from "../platform.js";
import { FeedFollow, type FeedItem, type FeedOptions } from "./feed.js";
import { type Cursor, Follow, type FollowOptions, type ThreadItem } from "./follow.js";
import { Lane, type Shared } from "./lane.js";
import { newMachine } from "./machine.js";
import { type ConnectionStatus, sameStatus, statusOf, withCalls } from "./status.js";
import { Subscription, type Told } from "./subscription.js";
import { watchSurroundings } from "./surroundings.js";

/**
 * All subscriptions of a client on one connection, which is opened for the first subscription, reopened when it breaks, and
 * closed after the last one. Several connections are used only where one is not enough: beyond `SUBSCRIPTIONS`, and for a
 * thread that is followed twice, since a socket carries one subscription per thread.
 */
export class Connection {
  readonly #shared: Shared;
  /** The first lane is kept, since it knows the state of the network. */
  #lanes: Lane[];
  #status: ConnectionStatus = { state: "idle" };
  readonly #listeners = new Set<(status: ConnectionStatus) => void>();
  #unwatch: (() => void) | undefined;
  /** Timer for a slow first connection. */
  #slow: ReturnType<typeof setTimeout> | undefined;
  #isLate = false;

  constructor(config: Config, http: Http) {
    this.#shared = { config, http, changed: () => this.#changed() };
    this.#lanes = [new Lane(this.#shared, newMachine(config.transports.length))];
    http.reach.onChange = () => this.#tell();
    http.reach.onBack = () => this.#wake("waiting");
    http.reach.onSilence = () => this.#wake("open");
  }

  /** The same object is returned until the status changes. */
  get status(): ConnectionStatus {
    return this.#status;
  }

  /** Calls a listener on every change of the status; returns a function that removes the listener. */
  onStatus(listener: (status: ConnectionStatus) => void): () => void {
    // A new function object, so that the same listener can be registered twice.
    const own = (status: ConnectionStatus) => listener(status);
    this.#listeners.add(own);
    return () => this.#listeners.delete(own);
  }

  /**
   * Follows a thread from a cursor: first the stored events, then live ones. Throws a `ClosedError` after `close()`, and a
   * `ConfigError` for an invalid thread id.
   */
  follow(threadId: string, options: FollowOptions & Told<ThreadItem>): Subscription<ThreadItem> {
    this.#shared.http.url(["threads", threadId]);
    return this.#carry(new Follow(threadId, options), options);
  }

  /** Follows the feed of a user's threads. */
  followFeed(options: FeedOptions & Told<FeedItem>): Subscription<FeedItem> {
    return this.#carry(new FeedFollow(options), options);
  }

  /** Closes all connections permanently; iterators end with a `ClosedError`. */
  close(): void {
    for (const lane of this.#lanes) lane.close();
  }

  #carry<Item>(cursor: Cursor<Item>, told: Told<Item>): Subscription<Item> {
    if (this.#status.state === "closed") throw new ClosedError("the client was closed");
    throwIfAborted(told.signal);
    const lane = this.#lanes.find((lane) => !lane.has(cursor.key) && lane.size < SUBSCRIPTIONS) ?? this.#newLane();
    return new Subscription(cursor, told, lane);
  }

  #newLane(): Lane {
    // A new lane starts with what the first one knows about the network.
    const known = this.#lanes[0]?.machine ?? newMachine(this.#shared.config.transports.length);
    const lane = new Lane(this.#shared, { ...known, state: { name: "idle" }, failures: 0, renewed: false });
    this.#lanes.push(lane);
    return lane;
  }

  #changed(): void {
    this.#lanes = this.#lanes.filter((lane, index) => index === 0 || lane.size > 0 || !isAtRest(lane));
    if (this.#lanes.every(isAtRest)) {
      this.#unwatch?.();
      this.#unwatch = undefined;
    } else if (!this.#unwatch) {
      const tell = (name: "online" | "offline" | "wake") => () => {
        for (const lane of this.#lanes) lane.input({ name });
      };
      // Set first, since a synchronous notification can call this method again.
      this.#unwatch = () => {};
      this.#unwatch = watchSurroundings({ online: tell("online"), offline: tell("offline"), wake: tell("wake") });
    }
    this.#tell();
  }

  /** Has lanes in this state connect again, or check their connection. */
  #wake(name: "waiting" | "open"): void {
    for (const lane of this.#lanes) if (lane.machine.state.name === name) lane.input({ name: "wake" });
  }

  #tell(): void {
    const lanes = statusOf(this.#lanes);
    if (lanes.state !== "connecting") {
      clearTimeout(this.#slow);
      this.#slow = undefined;
      this.#isLate = false;
    } else
      this.#slow ??= setTimeout(() => {
        this.#isLate = true;
        this.#tell();
      }, SLOW_MS);
    const status = withCalls(lanes, this.#shared.http.reach, this.#isLate);
    if (sameStatus(status, this.#status)) return;
    this.#status = status;
    const { logger } = this.#shared.config;
    if (logger) guarded(() => logStatus(logger, status));
    for (const listener of [...this.#listeners]) guarded(() => listener(status));
  }
}

function logStatus(logger: Logger, status: ConnectionStatus): void {
  const { state } = status;
  if (status.state === "live") return logger.debug("connection", { state, transport: status.transport });
  const error = "error" in status ? status.error : null;
  logger[error ? "warn" : "debug"]("connection", error ? { state, error: nameOf(error) } : { state });
}

function isAtRest({ machine }: Lane): boolean {
  return ["idle", "failed", "closed"].includes(machine.state.name);
}
