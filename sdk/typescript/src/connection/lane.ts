// One connection with its subscriptions: executes the effects of the state machine, and feeds it with inputs.

import type { Config, TransportName } from "../config.js";
import { ClosedError, ConnectionError, type ThreadlineError } from "../errors.js";
import type { Http } from "../http.js";
import { BACKOFF_MAX_MS, LINGER_MS, REFRESH_MIN_MS, TIMER_MAX_MS } from "../limits.js";
import { now } from "../platform.js";
import { failing } from "./failing.js";
import type { ServerFrame } from "./frames.js";
import { type Effect, type Input, type Machine, step } from "./machine.js";
import type { Carried, Carrier } from "./subscription.js";
import type { Listener, OpenTransport, Transport } from "./transport.js";
import { openEventStreams, openLongPolls, openSocket } from "./transports.js";

const TRANSPORTS: { readonly [N in TransportName]: OpenTransport } = {
  websocket: openSocket,
  sse: openEventStreams,
  "long-poll": openLongPolls,
};

/** State that the lanes of one client share. */
export interface Shared {
  readonly config: Config;
  readonly http: Http;
  /** Called when the state of a lane has changed. */
  readonly changed: () => void;
}

type Timer = ReturnType<typeof setTimeout>;

export class Lane implements Carrier {
  readonly #shared: Shared;
  readonly #subscriptions = new Map<string | undefined, Carried>();
  readonly #inputs: Input[] = [];
  #machine: Machine;
  #transport: Transport | undefined;
  #bearer: string | undefined;
  #ids = 0;
  #nextRetryAt = 0;
  #trouble: ThreadlineError | null = null;
  #stepping = false;
  #wait: Timer | undefined;
  #refresh: Timer | undefined;
  #linger: Timer | undefined;

  constructor(shared: Shared, machine: Machine) {
    this.#shared = shared;
    this.#machine = machine;
  }

  get machine(): Machine {
    return this.#machine;
  }

  /** When the next attempt is due, by the clock of this machine, in milliseconds since 1970. */
  get nextRetryAt(): number {
    return this.#nextRetryAt;
  }

  /** The error of the last attempt that failed. */
  get trouble(): ThreadlineError | null {
    return this.#trouble;
  }

  get transport(): TransportName | undefined {
    return this.#shared.config.transports[this.#machine.transport];
  }

  get size(): number {
    return this.#subscriptions.size;
  }

  has(key: string | undefined): boolean {
    return this.#subscriptions.has(key);
  }

  nextId(): string {
    this.#ids += 1;
    return String(this.#ids);
  }

  start(subscription: Carried): void {
    this.#subscriptions.set(subscription.key, subscription);
    clearTimeout(this.#linger);
    this.#transport?.add(subscription);
    this.input({ name: "wanted" });
  }

  stop(subscription: Carried, forEver: boolean): void {
    this.#transport?.remove(subscription);
    if (!forEver || this.#subscriptions.get(subscription.key) !== subscription) return;
    this.#subscriptions.delete(subscription.key);
    if (this.size > 0) return;
    this.#linger = setTimeout(() => this.input({ name: "unwanted" }), LINGER_MS);
  }

  close(): void {
    this.input({ name: "close" });
    clearTimeout(this.#linger);
    this.#failAll(new ClosedError("the client was closed"));
  }

  /** Feeds the machine. Inputs that arrive during a step are queued. */
  input(input: Input): void {
    this.#inputs.push(input);
    if (this.#stepping) return;
    this.#stepping = true;
    for (let next = this.#inputs.shift(); next; next = this.#inputs.shift()) {
      const before = this.#machine.state;
      const { machine, effects } = step(this.#machine, this.#judged(next), {
        now: now(),
        chance: Math.random(),
      });
      this.#machine = machine;
      for (const effect of effects) this.#do(effect);
      if (machine.state !== before) this.#shared.changed();
    }
    this.#stepping = false;
  }

  /** Turns a refused credential into a final refusal if the source cannot supply another one. */
  #judged(input: Input): Input {
    if (input.name !== "unauthorized") return input;
    const { credentials } = this.#shared.config;
    credentials.refused(this.#bearer);
    return credentials.renewable ? input : { name: "refused", error: input.error };
  }

  #do(effect: Effect): void {
    switch (effect.do) {
      case "authorize":
        this.#shared.config.credentials.get().then(
          (bearer) => {
            this.#bearer = bearer;
            this.input({ name: "authorized" });
          },
          (error: unknown) => this.input(failing(error)),
        );
        return;
      case "connect":
        return this.#connect();
      case "disconnect": {
        const transport = this.#transport;
        this.#transport = undefined;
        clearTimeout(this.#refresh);
        return transport?.close();
      }
      case "check":
        return this.#transport?.check();
      case "wait": {
        this.#wait = setTimeout(() => this.input({ name: "timer" }), effect.ms);
        this.#nextRetryAt = Math.ceil(Date.now() + effect.ms);
        const error = effect.error ?? new ConnectionError("no network connection");
        this.#trouble = error;
        for (const subscription of [...this.#subscriptions.values()]) subscription.reconnecting(effect.ms, error);
        return;
      }
      case "stopTimer":
        return clearTimeout(this.#wait);
      case "fail":
        return this.#failAll(effect.error);
    }
  }

  #connect(): void {
    const { config, http } = this.#shared;
    const open = TRANSPORTS[this.transport ?? "websocket"];
    let transport: Transport | undefined;
    // Frames of an earlier connection are ignored. A transport may report before it has been assigned.
    const heard = (tell: () => void) => {
      if (!transport || transport === this.#transport) tell();
    };
    const listener: Listener = {
      opened: () =>
        heard(() => {
          http.spoken = true;
          http.reach.heard();
          this.input({ name: "opened" });
        }),
      alive: () =>
        heard(() => {
          http.reach.heard();
          this.input({ name: "progress" });
        }),
      frame: (frame) =>
        heard(() => {
          http.reach.heard();
          this.#frame(frame);
        }),
      ended: (why) => heard(() => this.input(why)),
    };
    transport = open({ config, http, bearer: this.#bearer }, listener);
    this.#transport = transport;
    for (const subscription of this.#subscriptions.values()) if (!subscription.paused) transport.add(subscription);
    this.#refreshIn(config.credentials.renewInMs);
  }

  /** Schedules the renewal of the credential before the one of this connection expires. */
  #refreshIn(ms: number): void {
    clearTimeout(this.#refresh);
    if (ms > TIMER_MAX_MS) return;
    // Timers may fire a little early.
    this.#refresh = setTimeout(() => void this.#renew(), Math.max(Math.ceil(ms) + 1, REFRESH_MIN_MS));
  }

  async #renew(): Promise<void> {
    const { credentials } = this.#shared.config;
    const transport = this.#transport;
    const bearer = await credentials.get().catch(() => undefined);
    if (transport !== this.#transport) return;
    if (bearer === undefined) return this.#refreshIn(BACKOFF_MAX_MS);
    if (bearer === this.#bearer || this.#machine.state.name !== "open") return this.#refreshIn(credentials.renewInMs);
    this.#bearer = bearer;
    this.input({ name: "renewed" });
  }

  #frame(frame: ServerFrame): void {
    const subscription = this.#addressee(frame);
    if (!subscription) return;
    const { progress, error } = subscription.take(frame);
    if (progress) this.input({ name: "progress" });
    if (error?.retryable) this.input({ name: "lost", error });
  }

  #addressee({ id, body }: ServerFrame): Carried | undefined {
    // The response to a request is for that request alone, which may be an earlier one.
    if (id !== undefined) return [...this.#subscriptions.values()].find(({ requestId }) => requestId === id);
    return this.#subscriptions.get("threadId" in body ? body.threadId : undefined);
  }

  #failAll(error: ThreadlineError): void {
    const subscriptions = [...this.#subscriptions.values()];
    this.#subscriptions.clear();
    for (const subscription of subscriptions) subscription.fail(error);
  }
}
