// Every limit and interval of the package, one named constant each. Times are milliseconds.

/** Upper bound of the first wait after a failure; it doubles with every failure in a row. */
export const BACKOFF_BASE_MS = 250;
/** Upper bound of every wait. */
export const BACKOFF_MAX_MS = 10_000;
/** The longest wait that is kept if a server, or something before it, asks for one. */
export const RETRY_AFTER_MAX_MS = 300_000;
/** How long a call that reads goes on trying after lost answers and while the server is not ready. */
export const READS_RETRY_MS = 10_000;
/** The same of calls that change something on behalf of a person, who waits for it. */
export const WRITES_RETRY_MS = 10_000;
/** The same of producers, whose work would be lost. */
export const PRODUCERS_RETRY_MS = 60_000;
/** How long a finished run waits for the end of another one, while the server answers. */
export const OTHER_RUN_WAIT_MS = 60_000;
/** How long one request may take before it counts as lost. */
export const REQUEST_TIMEOUT_MS = 30_000;
/** Shortest timeout of a request that appends a complete run, in ms: the server may delay its response by up to 10 s. */
export const WHOLE_RUN_TIMEOUT_MS = 12_000;
/** Shortest timeout of any other request, in ms, so that the last try can still succeed. */
export const LAST_TRY_MS = 1_000;
/** A server that has not answered for so long is said to be slow. */
export const SLOW_MS = 800;

/** Lease of a run, in seconds, if its producer names none. */
export const DEFAULT_LEASE_SECONDS = 20;
/** The longest lease, in seconds. */
export const MAX_LEASE_SECONDS = 3_600;
/** A failed heartbeat is repeated after at most this time, not at the next beat. */
export const FAILED_BEAT_MS = 1_000;
/** Events that a producer sends in one request. What is larger is sent alone. */
export const BATCH_EVENTS = 1_000;
/** Bytes of JSON (UTF-16 units, about) that a producer sends in one request. */
export const BATCH_SIZE = 1_000_000;
/** Events that wait for their turn in a producer; an append beyond waits for room. */
export const PENDING_EVENTS = 10_000;
/** The same in bytes of JSON, about: 16 MiB is the server's limit of a batch. */
export const PENDING_SIZE = 16_000_000;
/** A producer that is silent otherwise says at least this often that it is alive: so it hears of a stop. */
export const BEAT_MAX_MS = 3_000;
/** Events that are asked for at once when what is stored of a run is read. */
export const STORED_PAGE_EVENTS = 10_000;
/** How long a token callback may take before it counts as failed. */
export const TOKEN_TIMEOUT_MS = 30_000;
/** Share of a token's lifetime after which the next one is asked for. */
export const REFRESH_AT_SHARE = 0.8;
/** How long an AG2B chat waits for its run to begin, and to be saved, before it goes on without. */
export const AG2B_PATIENCE_MS = 3_000;

/** Deepest nesting of an event, and of what patches make. */
export const MAX_JSON_DEPTH = 128;
/** Size of a state, in bytes of JSON (about), that no STATE_DELTA lets it pass; the same for an activity's content. */
export const MAX_STATE_BYTES = 16 * 1_024 * 1_024;
/** Work that the patches of a conversation may cost beyond their own length: this much at the beginning … */
export const PATCH_WORK = 16 * 1_024 * 1_024;
/** … and this much for each byte of its events of state and activities. */
export const PATCH_WORK_PER_BYTE = 32;

/** The longest id that the server keeps, in bytes of UTF-8. */
export const MAX_ID_BYTES = 256;
/** Interrupts that stay open over a run that neither answers nor repeats them; beyond this number the newer ones are forgotten. */
export const MAX_OPEN_INTERRUPTS = 256;
/** Bytes of JSON, about, that these hold. */
export const MAX_OPEN_INTERRUPT_BYTES = 1_024 * 1_024;

/** Characters of the JSON text of an AgentResult that one event holds; what is longer goes into several. */
export const RESULT_PART_CHARS = 1_000_000;
/** An AgentResult that is nested deeper is stored as text: the server takes events of at most 128 levels. */
export const RESULT_DEPTH = 100;
/** Bytes of events that the adapter for AgentKit puts into one whole run: 16 MiB is the server's limit. */
export const WHOLE_RUN_BYTES = 12 * 1_048_576;
/** Bytes of JSON of a text in an event for readers, below the server's 8 MiB for an event; longer ones are cut for them. */
export const VIEW_TEXT_BYTES = 7 * 1_048_576;
/** What is left of a text that was cut, in characters. */
export const VIEW_CUT_CHARS = 100_000;
/** Events that are asked for at once when a thread's results are read. */
export const HISTORY_PAGE_EVENTS = 10_000;
/** How long the hooks of one run of AgentKit wait, together, for a server that is away. */
export const HOOKS_TIMEOUT_MS = 10_000;
/** Threads about which the adapter for AgentKit remembers what was streamed. */
export const STREAMED_THREADS = 1_000;
/** Streamed replies of one thread that it remembers until their results are saved. */
export const STREAMED_REPLIES = 1_000;
/** A streamed run of AgentKit that is silent for so long has been given up by its network, and is ended. */
export const STREAM_SILENCE_MS = 10 * 60_000;

/** How long a transport may take to open before another one is thought of. */
export const OPEN_TIMEOUT_MS = 10_000;
/** How often a server says something, if it does not say how often. */
export const HEARTBEAT_MS = 15_000;
/** So many heartbeats may fail to come before a connection is taken for dead. */
export const MISSED_HEARTBEATS = 3;
/** A connection that is looked at after a pause (a page that becomes visible) answers in this time, or is taken for dead. */
export const CHECK_MS = 5_000;
/** A transport that does not open although the server can be reached is given up after so many times in a row. */
export const STRIKES = 2;
/** After this time on a lesser transport a new connection tries the best one again. */
export const PREFER_AGAIN_MS = 300_000;
/** How often it is tried whether one is online although the browser says no. */
export const OFFLINE_RETRY_MS = 30_000;
/** How long a connection that nobody needs stays open, in case somebody follows something right away. */
export const LINGER_MS = 1_000;
/** Subscriptions of one socket: the server's limit. Beyond that another socket is opened. */
export const SUBSCRIPTIONS = 256;
/** Event streams and long-polls at once in a browser, which over HTTP/1.1 allows six requests to one server in all. */
export const STREAMS_IN_BROWSER = 4;
/** The same elsewhere: half of the sockets and streams that a server allows one user. */
export const STREAMS_ELSEWHERE = 16;
/** Where more is followed than there may be requests: how long one has its turn while others wait. */
export const TURN_MS = 2_000;
/** How long a long-poll waits for something new, in seconds: below what proxies take for a dead connection. */
export const POLL_SECONDS = 25;
/** Events that wait in an iterator before it stops listening and reads on later, from its cursor. */
export const ITERATOR_EVENTS = 10_000;
/** A token is asked for ahead of its end at most this often. */
export const REFRESH_MIN_MS = 1_000;
/** Timers cannot wait longer. */
export const TIMER_MAX_MS = 2 ** 31 - 1;

/** A change of a thread that has not come back over the feed by then is given up (it may still come). */
export const MUTATION_TIMEOUT_MS = 15_000;
/** React is told of changes at most this often. */
export const FRAME_MS = 16;
/** Messages that are loaded at first, and each time when more are fetched. */
export const MESSAGES_PAGE = 500;
/** Pause of a long-poll that was answered with nothing, before it should have been. */
export const POLL_PAUSE_MS = 1_000;
