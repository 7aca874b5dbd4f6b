// Realistic threads for the screenshots. Each build writes the same threads, to the millisecond.

/** When the screenshots are made, by the clock of the page: a Friday. */
export const NOW = Date.parse("2026-03-20T14:32:10Z");

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Numbers that look as if they were random, and are always the same. */
function dice(seed) {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** Words of a text with the spaces behind them, as a model's tokens come. */
const tokens = (text) => text.match(/\s*\S+\s*?(?=\s|$)|\s+/g) ?? [];

/** What a run says, as events. Ids are counted. */
class Script {
  events = [];
  #name;
  #count = 0;

  constructor(name) {
    this.#name = name;
  }

  #id(what) {
    this.#count += 1;
    return `${this.#name}-${what}-${this.#count}`;
  }

  #speak(kind, role, text) {
    const messageId = this.#id("message");
    this.events.push({ type: `${kind}_START`, messageId, role });
    const parts = role === "user" ? [text] : tokens(text);
    for (const delta of parts) this.events.push({ type: `${kind}_CONTENT`, messageId, delta });
    this.events.push({ type: `${kind}_END`, messageId });
    return this;
  }

  asks = (text) => this.#speak("TEXT_MESSAGE", "user", text);
  says = (text) => this.#speak("TEXT_MESSAGE", "assistant", text);
  thinks = (text) => this.#speak("REASONING_MESSAGE", "reasoning", text);

  calls(toolCallName, args, result) {
    const toolCallId = this.#id("call");
    this.events.push({ type: "TOOL_CALL_START", toolCallId, toolCallName });
    for (const delta of JSON.stringify(args).match(/.{1,12}/g)) {
      this.events.push({ type: "TOOL_CALL_ARGS", toolCallId, delta });
    }
    this.events.push({ type: "TOOL_CALL_END", toolCallId });
    if (result !== undefined) {
      const content = JSON.stringify(result);
      this.events.push({ type: "TOOL_CALL_RESULT", messageId: this.#id("result"), toolCallId, content, role: "tool" });
    }
    return this;
  }

  has(snapshot) {
    this.events.push({ type: "STATE_SNAPSHOT", snapshot });
    return this;
  }

  changes(...delta) {
    this.events.push({ type: "STATE_DELTA", delta });
    return this;
  }
}

const run = (agentId, ago, script, end = { type: "RUN_FINISHED" }) => ({ agentId, ago, script, end });
const replace = (path, value) => ({ op: "replace", path, value });

const TRAVEL = new Script("travel-1")
  .asks("I have to be in Lisbon on Thursday evening, coming from Madrid. Is there a train, or should I fly?")
  .has({ trip: { from: "Madrid", to: "Lisbon", day: "2026-03-26" }, steps: ["trains", "flights", "compare"], done: 0 })
  .thinks(
    "There is no direct train between Madrid and Lisbon at the moment. I look up connections by Badajoz, and flights for comparison.",
  )
  .calls(
    "search_trains",
    { from: "Madrid", to: "Lisboa Oriente", date: "2026-03-26" },
    { direct: false, best: { via: ["Badajoz", "Entroncamento"], departs: "10:25", arrives: "20:31", price: 58.4 } },
  )
  .changes(replace("/done", 1))
  .calls(
    "search_flights",
    { from: "MAD", to: "LIS", date: "2026-03-26" },
    { cheapest: { departs: "17:05", arrives: "17:25", price: 74 }, count: 14 },
  )
  .changes(replace("/done", 2))
  .says(
    "There is **no direct train** between Madrid and Lisbon. With two changes it takes ten hours; a flight takes one hour and twenty minutes.\n\n" +
      "| | leaves | arrives | changes | price |\n|---|---|---|---|---|\n| Train | 10:25 | 20:31 | 2 | € 58.40 |\n| Flight | 17:05 | 17:25 | – | € 74.00 |\n\n" +
      "Clocks in Lisbon are an hour behind. I would:\n\n1. take the **17:05 flight**, which leaves you the morning in Madrid,\n2. travel with hand luggage only, and\n3. take the metro from the airport: the red line, 20 minutes.\n",
  )
  .changes(replace("/done", 3));

const TRAVEL_AGAIN = new Script("travel-2")
  .asks("The train then, I like the landscape. Which side should I sit on?")
  .thinks("From Badajoz on the line follows the Tagus on its right bank, seen to the west.")
  .says(
    "On the **left**, in the direction of travel: behind Abrantes the line follows the Tagus, and the evening sun is on it.\n\n" +
      "Reserve the first leg; the others have no reservations:\n\n```sh\nrenfe reserve --train 17194 --seat window-left\n```\n",
  );

const THREADS = [
  {
    name: "Madrid to Lisbon by train",
    agentId: "travel",
    runs: [run("travel", 26 * MINUTE, TRAVEL), run("travel", 9 * MINUTE, TRAVEL_AGAIN)],
    isRead: true,
  },
  {
    name: "Failing migration on staging",
    agentId: "code-review",
    runs: [
      run(
        "code-review",
        48 * MINUTE,
        new Script("migration")
          .asks("Why does 0042_add_index time out?")
          .thinks("A lock, most likely.")
          .says("It waits for `ACCESS EXCLUSIVE`. Make the index with `CREATE INDEX CONCURRENTLY`."),
      ),
    ],
    isRead: false,
  },
  simple("Refund for order 4821", "support", 2 * HOUR, "Where is my money?", "It was sent back on Tuesday.", true),
  simple(
    "Σαββατοκύριακο στη Νάξο",
    "travel",
    3 * HOUR + 12 * MINUTE,
    "Πότε φεύγει το πλοίο;",
    "Στις επτά το πρωί.",
    true,
  ),
  simple("Vokabeln für die B1-Prüfung", "tutor", 5 * HOUR, "Frag mich ab!", "Was heißt „the receipt“?", true),
  simple("Weekly numbers, calendar week 11", "analyst", DAY + HOUR, "How was the week?", "Up by 4 %.", true),
  {
    name: "Parcel that never arrived",
    agentId: "support",
    runs: [
      run("support", DAY + 4 * HOUR, new Script("parcel").asks("Where is it?").says("Let me look that up in"), {
        type: "RUN_ERROR",
        code: "upstream-timeout",
        message: "The carrier did not answer in 30 s.",
      }),
    ],
    isRead: false,
  },
  simple("خطة الرحلة إلى القاهرة", "travel", DAY + 7 * HOUR, "كم تستغرق الرحلة؟", "أربع ساعات.", true),
  simple("Draft of the talk on event sourcing", "writer", 3 * DAY, "Begin with a story.", "Once upon a time…", true),
  simple("Names for a cat", "demo", 4 * DAY, "Ten names?", "Miso, Pixel, Bolt…", true),
  simple("Release notes for 2.4", "writer", 5 * DAY, "Summarise these commits.", "Faster, and calmer.", true),
  simple("Contract, second reading", "legal", 6 * DAY, "What has changed?", "Clause 7.", true),
  simple("Budget of the summer party", "analyst", 24 * DAY, "Is it enough?", "Without the band, yes.", true),
  simple("Onboarding of new colleagues", "writer", 29 * DAY, "A checklist?", "Here it is.", true),
  simple("Bread with too much water", "demo", 31 * DAY, "Can it be saved?", "Bake it in a tin.", true),
  simple("Interview questions for SRE", "writer", 36 * DAY, "Five questions?", "1. What is an SLO?", true),
];

function simple(name, agentId, ago, asked, said, isRead) {
  const script = new Script(name.replace(/\W+/g, "-").toLowerCase()).asks(asked).says(said);
  return { name, agentId, runs: [run(agentId, ago, script)], isRead };
}

/** All of them, each as a thread, its runs and its events of an export. */
export function written() {
  return THREADS.map(({ name, agentId, runs, isRead }, index) => {
    const roll = dice(index + 7);
    const hex = (count) => Array.from({ length: count }, () => Math.floor(roll() * 16).toString(16)).join("");
    // Of the version 7, by the time of the thread.
    const id = (at) => {
      const time = at.toString(16).padStart(12, "0");
      return `${time.slice(0, 8)}-${time.slice(8)}-7${hex(3)}-a${hex(3)}-${hex(12)}`;
    };
    const created = NOW - runs[0].ago - 4_000;
    const threadId = id(created);
    const events = [];
    const records = runs.map(({ agentId, ago, script, end }, number) => {
      let at = NOW - ago;
      const runId = id(at);
      const firstSeq = events.length + 1;
      const startedAt = time(at);
      for (const event of [{ type: "RUN_STARTED", threadId, runId }, ...script.events, endOf(end, threadId, runId)]) {
        at += /_CONTENT$|_ARGS$/.test(event.type) ? 18 + Math.floor(roll() * 45) : 5 + Math.floor(roll() * 260);
        events.push({ seq: events.length + 1, runId, at: time(at), event: { ...event, timestamp: at } });
      }
      const isError = end.type === "RUN_ERROR";
      return {
        runId,
        fence: number + 1,
        agentId,
        status: isError ? "error" : "finished",
        errorCode: isError ? end.code : null,
        errorMessage: isError ? end.message : null,
        usage: null,
        firstSeq,
        producerSeq: events.length - firstSeq + 1,
        startedAt,
        endedAt: time(at),
        leaseUntil: null,
        stopRequestedAt: null,
      };
    });
    const tail = events.length;
    const thread = {
      projectId: "default",
      threadId,
      userId: "dev",
      agentId,
      name,
      nameSource: "title",
      archived: false,
      metadata: {},
      createdAt: time(created),
      updatedAt: time(created),
      lastRunAt: records.at(-1).startedAt,
      version: 2 + runs.length,
      createdWith: hex(32),
      epoch: `2${hex(15)}`,
      tail,
      ...(isRead && { readSeq: tail }),
      fence: runs.length,
    };
    return { thread, runs: records.reverse(), events };
  });
}

const time = (at) => new Date(at).toISOString();

const endOf = (end, threadId, runId) => (end.type === "RUN_FINISHED" ? { ...end, threadId, runId } : end);
