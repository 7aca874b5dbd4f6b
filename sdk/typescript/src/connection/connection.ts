import type { Config } from "../config.js";
import { ClosedError } from "../errors.js";
import type { Http } from "../http.js";
import { SLOW_MS, STREAMS_ELSEWHERE, STREAMS_IN_BROWSER, SUBSCRIPTIONS } from "../limits.js";
import { FeedFollow, type FeedItem, type FeedOptions } from "./feed.js";
import { type Cursor, Follow, type FollowOptions, type ThreadItem } from "./follow.js";
import { Lane, type Shared } from "./lane.js";
import { newMachine } from "./machine.js";
import { type ConnectionStatus, sameStatus, statusOf, withCalls } from "./status.js";
import { guarded, Subscription, type Told } from "./subscription.js";
import { watchSurroundings } from "./surroundings.js";
import { Turns } from "./turns.js";

/**
 * Everything that a client follows, on one connection: that is made when something is followed, made again when it breaks, and
 * ended when nothing is. (On several, where one cannot carry it all: beyond `SUBSCRIPTIONS`, and for a thread that is followed
 * twice, since a socket has one subscription of each.)
 */
export class Connection {
  readonly #shared: Shared;
  /** The first stays, for what it knows of the network. */
  #lanes: Lane[];
  #status: ConnectionStatus = { state: "idle" };
  readonly #listeners = new Set<(status: ConnectionStatus) => void>();
  #unwatch: (() => void) | undefined;
  /** Of a first connection that is under way. */
  #slow: ReturnType<typeof setTimeout> | undefined;
  #isLate = false;

  constructor(config: Config, http: Http) {
    const turns = new Turns(
      "document" in globalThis || "importScripts" in globalThis ? STREAMS_IN_BROWSER : STREAMS_ELSEWHERE,
    );
    this.#shared = { config, http, turns, changed: () => this.#changed() };
    this.#lanes = [new Lane(this.#shared, newMachine(config.transports.length))];
    http.reach.onChange = () => this.#tell();
  }

  /** The same object until something of it changes. */
  get status(): ConnectionStatus {
    return this.#status;
  }

  /** Calls a listener with every change of the status; gives what ends that. */
  onStatus(listener: (status: ConnectionStatus) => void): () => void {
    // Its own, so that the same function may be given twice.
    const own = (status: ConnectionStatus) => listener(status);
    this.#listeners.add(own);
    return () => this.#listeners.delete(own);
  }

  /**
   * Follows a thread from its cursor on: first what is there, then what comes. Throws a `ClosedError` after `close()`, and a
   * `ConfigError` if this can be no thread's id.
   */
  follow(threadId: string, options: FollowOptions & Told<ThreadItem>): Subscription<ThreadItem> {
    this.#shared.http.url(["threads", threadId]);
    return this.#carry(new Follow(threadId, options), options);
  }

  /** Follows the feed of a user's threads. */
  followFeed(options: FeedOptions & Told<FeedItem>): Subscription<FeedItem> {
    return this.#carry(new FeedFollow(options), options);
  }

  /** Ends everything, for ever; iterators end with a `ClosedError`. */
  close(): void {
    for (const lane of this.#lanes) lane.close();
  }

  #carry<Item>(cursor: Cursor<Item>, told: Told<Item>): Subscription<Item> {
    if (this.#status.state === "closed") throw new ClosedError("the client was closed");
    told.signal?.throwIfAborted();
    const lane = this.#lanes.find((lane) => !lane.has(cursor.key) && lane.size < SUBSCRIPTIONS) ?? this.#newLane();
    return new Subscription(cursor, told, lane);
  }

  #newLane(): Lane {
    // It knows what the first has found out about the network.
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
      // Set first: what is told at once comes back to this method.
      this.#unwatch = () => {};
      this.#unwatch = watchSurroundings({ online: tell("online"), offline: tell("offline"), wake: tell("wake") });
    }
    this.#tell();
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
    for (const listener of [...this.#listeners]) guarded(() => listener(status));
  }
}

function isAtRest({ machine }: Lane): boolean {
  return ["idle", "failed", "closed"].includes(machine.state.name);
}
