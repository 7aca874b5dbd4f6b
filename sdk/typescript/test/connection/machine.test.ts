// All combinations of state, input and memory, which connection.json describes; then invariants of random sequences.

import { describe, expect, test } from "vitest";
import { Follow } from "../../src/connection/follow.js";
import type { EndReason } from "../../src/connection/frames.js";
import { closing } from "../../src/connection/transport.js";
import { ConnectionError, ProblemError, ProtocolError } from "../../src/errors.js";
import * as limits from "../../src/limits.js";
import { BACKOFF_BASE_MS, BACKOFF_MAX_MS, OFFLINE_RETRY_MS, PREFER_AGAIN_MS } from "../../src/limits.js";
import { CONNECTION, expected } from "./model.js";
import {
  type Effect,
  type Input,
  type Machine,
  newMachine,
  type State,
  step,
  TABLE,
} from "../../src/connection/machine.js";

const LOST = new ConnectionError("lost");
const REFUSED = new ProtocolError("refused");
const DRAW = { now: 1_000, chance: 0.5 };

const INPUTS: { readonly [N in Input["name"]]: Input & { readonly name: N } } = {
  wanted: { name: "wanted" },
  unwanted: { name: "unwanted" },
  authorized: { name: "authorized" },
  opened: { name: "opened" },
  progress: { name: "progress" },
  renewed: { name: "renewed" },
  offline: { name: "offline" },
  online: { name: "online" },
  wake: { name: "wake" },
  timer: { name: "timer" },
  close: { name: "close" },
  lost: { name: "lost", error: LOST },
  silent: { name: "silent", error: LOST },
  blocked: { name: "blocked", error: LOST },
  unsupported: { name: "unsupported", error: LOST },
  unauthorized: { name: "unauthorized", error: REFUSED },
  refused: { name: "refused", error: REFUSED },
};
const NAMES = Object.keys(INPUTS) as Input["name"][];

const STATES: { readonly [S in State["name"]]: State & { readonly name: S } } = {
  idle: { name: "idle" },
  authorizing: { name: "authorizing" },
  connecting: { name: "connecting" },
  open: { name: "open" },
  waiting: { name: "waiting", waitMs: 100, error: LOST },
  offline: { name: "offline", waitMs: OFFLINE_RETRY_MS },
  failed: { name: "failed", error: REFUSED },
  closed: { name: "closed" },
};

/** A machine in operation: the first of three transports, without failures so far. */
const at = (name: State["name"], more: Partial<Machine> = {}): Machine => ({
  ...newMachine(3),
  state: STATES[name],
  online: name !== "offline",
  ...more,
});

const told = ({ machine, effects }: { machine: Machine; effects: readonly Effect[] }) =>
  [machine.state.name, ...effects.map((effect) => effect.do)].join(" ");

const DRAWN = { now: PREFER_AGAIN_MS, chance: 0.5 };

/** Memories that differ in every condition of the moves. */
function* machines(state: State["name"]): Generator<Machine> {
  for (const online of [true, false])
    for (const renewed of [true, false])
      for (const strikes of [0, 1])
        for (const transport of [0, 1, 2])
          for (const fellBackAt of [0, 1_000])
            yield at(state, { online, renewed, failures: 3, strikes, transport, fellBackAt });
}

/** What the machine does in all cases, as texts. */
const CASES = (Object.keys(STATES) as State["name"][]).flatMap((state) =>
  NAMES.flatMap((name) =>
    ("error" in INPUTS[name] ? [LOST, REFUSED] : [undefined]).flatMap((error) => {
      const input = { name, ...(error && { error }) } as Input;
      return [...machines(state)].map((machine) => ({
        input,
        machine,
        told: JSON.stringify(step(machine, input, DRAWN)),
      }));
    }),
  ),
);

/** The first case in which the machine does something else than a description says. */
function difference(description: typeof CONNECTION): string | undefined {
  for (const { input, machine, told } of CASES) {
    const wanted = JSON.stringify(expected(description, machine, input, DRAWN));
    if (told !== wanted) return `${machine.state.name}, ${input.name}: ${told} instead of ${wanted}`;
  }
  return undefined;
}

test("connection.json is what the machine does: every state, event and memory", () => {
  expect(difference(CONNECTION)).toBeUndefined();
  expect(Object.keys(CONNECTION.states)).toEqual(Object.keys(TABLE));
  expect(Object.keys(CONNECTION.events)).toEqual(NAMES);
  for (const row of Object.values(TABLE)) expect(Object.keys(row).toSorted()).toEqual(NAMES.toSorted());
});

test("every transition and every rule of connection.json is needed", () => {
  const changed = (change: (copy: typeof CONNECTION) => void) => {
    const copy = structuredClone(CONNECTION);
    change(copy);
    return difference(copy);
  };
  for (const [state, row] of Object.entries(CONNECTION.transitions)) {
    for (const event of Object.keys(row)) {
      const without = changed(({ transitions }) => delete transitions[state]![event]);
      expect(without, `${state}, ${event}`).toBeDefined();
    }
  }
  for (const [move, rules] of Object.entries(CONNECTION.moves)) {
    for (const [at, rule] of rules.entries()) {
      for (const part of Object.keys(rule) as (keyof typeof rule)[]) {
        const without = changed(({ moves }) => delete moves[move]![at]![part]);
        expect(without, `${move}, rule ${at}, ${part}`).toBeDefined();
      }
    }
  }
});

test("limits, close codes and final errors are those of connection.json", () => {
  const { backoff, limits: numbers, errors } = CONNECTION;
  expect(backoff).toMatchObject({
    baseMs: limits.BACKOFF_BASE_MS,
    maxMs: limits.BACKOFF_MAX_MS,
    requestedMaxMs: limits.RETRY_AFTER_MAX_MS,
  });
  expect(numbers).toEqual({
    strikes: limits.STRIKES,
    preferAgainMs: limits.PREFER_AGAIN_MS,
    offlineRetryMs: limits.OFFLINE_RETRY_MS,
    openTimeoutMs: limits.OPEN_TIMEOUT_MS,
    missedHeartbeats: limits.MISSED_HEARTBEATS,
    checkMs: limits.CHECK_MS,
    lingerMs: limits.LINGER_MS,
  });
  const { unauthorized, refused } = errors.closeCodes;
  const isRefused = (code: number) =>
    refused.some((one) => {
      const [from, to = from] = String(one).split(" to ").map(Number);
      return code >= from! && code <= to!;
    });
  for (let code = 1_000; code < 5_000; code += 1) {
    const name = unauthorized.includes(code) ? "unauthorized" : isRefused(code) ? "refused" : "lost";
    expect(closing(code, "").name, String(code)).toBe(name);
  }
  for (let status = 400; status < 600; status += 1) {
    const { retryable } = new ProblemError({}, status);
    expect(retryable, String(status)).toBe(errors.retryableStatuses.includes(status));
  }
  const after = (reason: string) => {
    const follow = new Follow("t");
    follow.request("1");
    follow.take({ name: "hello", id: "1", body: { threadId: "t", epoch: "e", tail: 0, after: 0 } });
    const { error, done } = follow.take({ name: "ended", body: { threadId: "t", reason: reason as EndReason } });
    return error ? (error.retryable ? "lost" : "final") : done ? "done" : "ignored";
  };
  for (const [what, reasons] of Object.entries(errors.ended)) {
    expect(reasons.length).toBeGreaterThan(0);
    for (const reason of reasons) expect(after(reason), reason).toBe(what);
  }
});

/** Applies inputs to a machine. */
const through = (machine: Machine, inputs: readonly (Input | Input["name"])[], draw = DRAW) =>
  inputs.reduce<ReturnType<typeof step>>(
    ({ machine }, input) => step(machine, typeof input === "string" ? INPUTS[input] : input, draw),
    { machine, effects: [] },
  );

describe("memory of the machine", () => {
  test("delays double up to their bound, and only progress resets them", () => {
    let machine = at("connecting");
    for (const bound of [250, 500, 1_000, 2_000, 4_000, BACKOFF_MAX_MS, BACKOFF_MAX_MS]) {
      const { effects, machine: waiting } = step(machine, INPUTS.lost, { now: 0, chance: 1 });
      expect(effects).toContainEqual({ do: "wait", ms: bound, error: LOST });
      ({ machine } = through(waiting, ["timer", "authorized", "opened"]));
    }
    ({ machine } = through(machine, ["progress"]));
    expect(step(machine, INPUTS.lost, { now: 0, chance: 1 }).machine.state).toMatchObject({ waitMs: BACKOFF_BASE_MS });
  });

  test("a delay requested by the server is honored, with jitter", () => {
    const draining = { name: "lost", error: new ConnectionError("draining", { retryAfterMs: 500 }) } as const;
    for (const [chance, waitMs] of [
      [0, 500],
      [1, 500 + BACKOFF_BASE_MS],
    ] as const) {
      expect(step(at("open"), draining, { now: 0, chance }).machine.state).toMatchObject({ name: "waiting", waitMs });
    }
  });

  test("a blocked transport is abandoned after two consecutive failures, an unsupported one immediately", () => {
    const once = through(at("connecting"), ["blocked"]);
    expect([once.machine.state.name, once.machine.transport]).toEqual(["waiting", 0]);
    const twice = through(once.machine, ["timer", "authorized", "blocked"]);
    expect([twice.machine.state.name, twice.machine.transport]).toEqual(["connecting", 1]);
    const between = through(once.machine, [
      "timer",
      "authorized",
      "opened",
      "progress",
      "lost",
      "timer",
      "authorized",
      "blocked",
    ]);
    expect([between.machine.state.name, between.machine.transport]).toEqual(["waiting", 0]);
    const last = through(twice.machine, ["unsupported"]);
    expect([last.machine.state.name, last.machine.transport]).toEqual(["connecting", 2]);
    // No transport follows the last one: a temporary failure is waited for, an impossible transport is final.
    expect(through(last.machine, ["unsupported"]).machine.state.name).toBe("waiting");
    expect(through(last.machine, [{ name: "unsupported", error: REFUSED }]).machine.state.name).toBe("failed");
  });

  test("the best transport is tried again after a while, and on another network, and abandoned immediately if it is blocked", () => {
    const { machine: lesser } = through(at("connecting"), ["unsupported", "opened", "progress", "lost"]);
    const soon = { now: DRAW.now + PREFER_AGAIN_MS - 1, chance: 0 };
    const later = { now: DRAW.now + PREFER_AGAIN_MS, chance: 0 };
    expect(step(lesser, INPUTS.timer, soon).machine.transport).toBe(1);
    const again = through(lesser, ["timer", "authorized"], later);
    expect(again.machine.transport).toBe(0);
    expect(step(again.machine, INPUTS.blocked, later)).toMatchObject({
      machine: { transport: 1, state: { name: "connecting" } },
    });
    expect(step(lesser, INPUTS.online, soon).machine.transport).toBe(0);
  });

  test("down to the last transport, and from there up again", () => {
    const blocked = ["timer", "authorized", "opened", "blocked"] as const;
    const { machine: last } = through(at("waiting"), [...blocked, ...blocked, "opened", "blocked", ...blocked]);
    expect([last.state.name, last.transport, last.strikes]).toEqual(["connecting", 2, 0]);
    // After a loss on the last transport it is retried there, for a while.
    const { machine: again } = through(last, ["opened", "progress", "lost", "timer", "authorized"]);
    expect([again.state.name, again.transport]).toEqual(["connecting", 2]);
    for (const { machine: up } of [
      through(last, ["opened", "lost", "online", "authorized"]),
      through(last, ["opened", "lost", "timer", "authorized"], { now: DRAW.now + PREFER_AGAIN_MS, chance: 0 }),
    ]) {
      expect([up.state.name, up.transport]).toEqual(["connecting", 0]);
    }
  });

  test("a credential is renewed once for each failure; a refusal after that is final", () => {
    const again = through(at("open"), ["unauthorized", "authorized"]);
    expect(again.machine.state.name).toBe("connecting");
    expect(told(step(again.machine, INPUTS.unauthorized, DRAW))).toBe("failed disconnect fail");
    const well = through(again.machine, ["opened", "progress"]);
    expect(told(step(well.machine, INPUTS.unauthorized, DRAW))).toBe("authorizing disconnect authorize");
    // A later subscription may have another credential.
    const anew = through(again.machine, ["unauthorized", "wanted", "authorized", "unauthorized"]);
    expect(anew.machine.state.name).toBe("authorizing");
  });

  test("a browser's offline state is trusted for a limited time", () => {
    const { machine } = through(at("idle"), ["offline", "wanted"]);
    expect(machine.state).toEqual({ name: "offline", waitMs: OFFLINE_RETRY_MS });
    expect(through(machine, ["timer", "authorized", "lost"]).machine.state.name).toBe("offline");
    expect(through(machine, ["timer", "authorized", "opened", "lost"]).machine.state.name).toBe("waiting");
  });
});

/** `expect` takes longer than all of the walks. */
function holds(it: boolean, where: () => string): void {
  if (!it) expect.unreachable(where());
}

test("any sequence of inputs: one connection at a time, every wait ends, jitter in range, and no effect after close", () => {
  let seed = Number(process.env["THREADLINE_SEED"] ?? Math.floor(Math.random() * 2 ** 31));
  const first = seed;
  // Lehmer's generator: a walk can be repeated with its seed.
  const random = () => (seed = (seed * 48_271) % 0x7fffffff) / 0x7fffffff;
  for (let walk = 0; walk < 300; walk += 1) {
    let machine = newMachine(1 + Math.floor(random() * 3));
    let connections = 0;
    let timers = 0;
    let now = 0;
    let closed = false;
    for (let i = 0; i < 200; i += 1) {
      const name = NAMES[Math.floor(random() * NAMES.length)]!;
      // Closing ends a walk, so it comes late.
      if (name === "close" && i < 150) continue;
      now += random() * 60_000;
      const input =
        "error" in INPUTS[name] ? { ...INPUTS[name], error: random() < 0.5 ? LOST : REFUSED } : INPUTS[name];
      const before = machine;
      const chance = random();
      const result = step(machine, input as Input, { now, chance });
      machine = result.machine;
      const where = () => `seed ${first}, walk ${walk}, input ${i}: ${before.state.name}, ${name} -> ${told(result)}`;
      for (const effect of result.effects) {
        holds(!closed, where);
        if (effect.do === "connect") connections += 1;
        if (effect.do === "disconnect") connections -= 1;
        if (effect.do === "stopTimer") timers -= 1;
        if (effect.do !== "wait") continue;
        timers += 1;
        const bound = effect.error
          ? Math.min(BACKOFF_MAX_MS, BACKOFF_BASE_MS * 2 ** (machine.failures - 1))
          : OFFLINE_RETRY_MS;
        holds(effect.ms >= 0 && effect.ms <= bound, where);
      }
      const { state } = machine;
      holds(connections === (state.name === "connecting" || state.name === "open" ? 1 : 0), where);
      // Every waiting state has a timer that ends it.
      holds(timers === (state.name === "waiting" || state.name === "offline" ? 1 : 0), where);
      holds(machine.transport < machine.transports, where);
      holds(machine.failures >= before.failures || name === "progress" || name === "wanted", where);
      closed ||= state.name === "closed";
      holds(!closed || state.name === "closed", where);
    }
    // From any state, a timer and successful inputs lead to an open connection.
    if (closed) continue;
    for (const name of ["online", "wanted", "timer", "authorized", "opened"] as const)
      ({ machine } = step(machine, INPUTS[name], { now, chance: 0 }));
    expect(machine.state.name, `seed ${first}, walk ${walk}`).toBe("open");
  }
});
