// All limits and intervals of the package, one named constant each. Times are in milliseconds.

/** Upper bound of the first delay after a failure; the bound doubles with every consecutive failure. */
export const BACKOFF_BASE_MS = 250;
/** Upper bound of every delay, and so of the time in which a client notices that the server is back. */
export const BACKOFF_MAX_MS = 5_000;
/** The longest delay that is honored if a server, or a proxy before it, requests one. */
export const RETRY_AFTER_MAX_MS = 300_000;
/** Retry time of calls that read, after lost responses and while the server is not ready. */
export const READS_RETRY_MS = 10_000;
/** Retry time of calls that change data on behalf of a person, who waits for the result. */
export const WRITES_RETRY_MS = 10_000;
/** Retry time of producers, whose work would be lost. */
export const PRODUCERS_RETRY_MS = 60_000;
/** How long a complete run waits for another run to end, while the server responds. */
export const OTHER_RUN_WAIT_MS = 60_000;
/** Timeout of one request. */
export const REQUEST_TIMEOUT_MS = 30_000;
/** Shortest timeout of a request that appends a complete run, in ms: the server may delay its response by up to 10 s. */
export const WHOLE_RUN_TIMEOUT_MS = 11_000;
/** Shortest timeout of any other request, in ms, so that the last try can still succeed. */
export const LAST_TRY_MS = 1_000;
/** Time without a response after which the server counts as slow. */
export const SLOW_MS = 800;

/** Lease of a run, in seconds, if its producer specifies none. */
export const DEFAULT_LEASE_SECONDS = 20;
/** The longest lease, in seconds. */
export const MAX_LEASE_SECONDS = 3_600;
/** Maximum delay before a failed heartbeat is repeated, instead of waiting for the next one. */
export const FAILED_BEAT_MS = 1_000;
/** Maximum number of events that a producer sends in one request. A larger append is sent on its own. */
export const BATCH_EVENTS = 1_000;
/** Maximum size of one request of a producer, in UTF-16 units, which approximate bytes of JSON. */
export const BATCH_SIZE = 1_000_000;
/** Maximum number of events that are queued in a producer; a further append waits for room. */
export const PENDING_EVENTS = 10_000;
/** Maximum approximate size of the queued events, in bytes of JSON; 16 MiB is the server's limit of a batch. */
export const PENDING_SIZE = 16_000_000;
/**
 * Maximum size of the acknowledged events that a producer keeps, in UTF-16 units, which approximate bytes of JSON: it sends
 * them again if the server has lost them.
 */
export const SENT_SIZE = 4 * 1_024 * 1_024;
/** Longest interval between heartbeats of an otherwise silent producer, which bounds the delay of a stop request. */
export const BEAT_MAX_MS = 3_000;
/**
 * Number of events of a run among which the one that names its newest attempt is found. Only snapshots of state and messages follow
 * it.
 */
export const TAKEOVER_EVENTS = 16;
/**
 * Largest JSON text of a value that a piped stream has and AG-UI has not, in UTF-16 units, below the server's limit of 8 MiB for an
 * event. Of a larger value only the type is kept.
 */
export const MAX_UNMAPPED_CHARS = 1_000_000;
/** Characters that are logged of the type, and of the name, of a stream's item that is not known. */
export const MAX_LOGGED_CHARS = 100;
/** Maximum number of first items of a piped stream that wait until one tells the kind of the stream. */
export const MAX_WAITING_ITEMS = 16;
/** Timeout of a token callback. */
export const TOKEN_TIMEOUT_MS = 30_000;
/** Share of a token's lifetime after which the next one is requested. */
export const REFRESH_AT_SHARE = 0.8;
/** How long an AG2B chat waits for its run to start, and to be saved, before it continues without. */
export const AG2B_PATIENCE_MS = 3_000;

/** Maximum nesting depth of an event, and of the result of a patch. */
export const MAX_JSON_DEPTH = 128;
/**
 * Approximate maximum size of a state, in bytes of JSON, that a STATE_DELTA may produce; the same applies to an activity's
 * content.
 */
export const MAX_STATE_BYTES = 16 * 1_024 * 1_024;
/** Work that the patches of a conversation may cost beyond their own length: the initial budget … */
export const PATCH_WORK = 16 * 1_024 * 1_024;
/** … and the addition to it for each byte of the state and activity events. */
export const PATCH_WORK_PER_BYTE = 32;

/** The longest id that the server accepts, in bytes of UTF-8. */
export const MAX_ID_BYTES = 256;
/**
 * Maximum number of interrupts that stay open across a run that neither answers nor repeats them; newer ones beyond it are
 * dropped.
 */
export const MAX_OPEN_INTERRUPTS = 256;
/** Maximum number of interrupts that are open at all: the input of a run can answer no more. */
export const MAX_ANSWERS = 1_000;
/** Approximate maximum size of these interrupts, in bytes of JSON. */
export const MAX_OPEN_INTERRUPT_BYTES = 1_024 * 1_024;

/** Characters of an AgentResult's JSON text per event; a longer text is split into several events. */
export const RESULT_PART_CHARS = 1_000_000;
/** Nesting depth beyond which an AgentResult is stored as text: the server accepts events of at most 128 levels. */
export const RESULT_DEPTH = 100;
/** Bytes of events that the adapter for AgentKit puts into one complete run: 16 MiB is the server's limit. */
export const WHOLE_RUN_BYTES = 12 * 1_048_576;
/**
 * Maximum size of a text in an event for readers, in bytes of JSON, below the server's limit of 8 MiB for an event; longer
 * texts are truncated.
 */
export const VIEW_TEXT_BYTES = 7 * 1_048_576;
/** Length of a truncated text, in characters. */
export const VIEW_CUT_CHARS = 100_000;
/** Number of events per request when a thread's results are read. */
export const HISTORY_PAGE_EVENTS = 10_000;
/** How long the hooks of one AgentKit run wait, in total, for an unreachable server. */
export const HOOKS_TIMEOUT_MS = 10_000;
/** How long the hooks of AgentKit fail at once after one of them has waited in vain. */
export const HOOKS_PAUSE_MS = 5_000;
/** Number of threads for which the adapter for AgentKit tracks streamed replies. */
export const STREAMED_THREADS = 1_000;
/** Number of streamed replies per thread that are tracked until their results are saved. */
export const STREAMED_REPLIES = 1_000;
/** Time without events after which a streamed run of AgentKit is considered abandoned by its network, and is ended. */
export const STREAM_SILENCE_MS = 10 * 60_000;

/** Timeout for opening a transport, after which another one is considered. */
export const OPEN_TIMEOUT_MS = 10_000;
/** Interval of the server's heartbeats, if the server does not specify one. */
export const HEARTBEAT_MS = 15_000;
/** Number of missed heartbeats after which a connection counts as dead. */
export const MISSED_HEARTBEATS = 3;
/** Time within which a connection has to respond to a check after a pause (when a page becomes visible, for example). */
export const CHECK_MS = 5_000;
/** Number of consecutive failures to open, while the server is reachable, after which a transport is abandoned. */
export const STRIKES = 2;
/** Time on a less preferred transport after which a new connection tries the best one again. */
export const PREFER_AGAIN_MS = 300_000;
/** Interval of connection attempts while the browser reports that it is offline. */
export const OFFLINE_RETRY_MS = 30_000;
/** How long an unused connection stays open, in case a new subscription follows shortly. */
export const LINGER_MS = 1_000;
/** Subscriptions per socket: the server's limit. Further subscriptions use another socket. */
export const SUBSCRIPTIONS = 256;
/** Concurrent event streams and long-polls in a browser, which allows six HTTP/1.1 requests to one server in total. */
export const STREAMS_IN_BROWSER = 4;
/** Concurrent event streams and long-polls elsewhere: half of the sockets and streams that a server allows one user. */
export const STREAMS_ELSEWHERE = 16;
/** Length of one subscription's turn, where there are more subscriptions than concurrent requests. */
export const TURN_MS = 2_000;
/** How long a long-poll waits for something new, in seconds: shorter than the idle timeouts of proxies. */
export const POLL_SECONDS = 25;
/** Events that an iterator buffers before it stops listening; it later resumes from its cursor. */
export const ITERATOR_EVENTS = 10_000;
/** Minimum interval between requests for a token ahead of its expiry. */
export const REFRESH_MIN_MS = 1_000;
/** The longest delay that a timer supports. */
export const TIMER_MAX_MS = 2 ** 31 - 1;

/**
 * Time after which a change of a thread that has not been confirmed over the feed is reported as failed (it may still be
 * applied).
 */
export const MUTATION_TIMEOUT_MS = 15_000;
/** Time without an answer after which a sent message is shown as failed; it may still arrive. */
export const ANSWER_MS = 10_000;
/** Lease of a page's claim on a tool call, in seconds; the page renews it while the tool is executed. */
export const CLAIM_LEASE_SECONDS = 30;
/** Interval at which a page tries to claim a call that another page has claimed, and repeats a result that cannot be sent. */
export const CLAIM_RETRY_MS = 5_000;
/** Minimum interval between notifications of React. */
export const FRAME_MS = 16;
/** Maximum size of the result of `dehydrate` as JSON text, in bytes of UTF-8. */
export const DEHYDRATED_BYTES = 512 * 1_024;
/** Number of events per request when `dehydrate` reads the active run. */
export const DEHYDRATED_PAGE_EVENTS = 10_000;
/** Maximum number of threads in the result of `dehydrate`: each has an equal share of its size. */
export const DEHYDRATED_THREADS = 16;
/** How long a thread that was loaded for a suspended component stays open until the component is mounted. */
export const SUSPENDED_MS = 5_000;
/** Messages per page, initially and for each fetch of older ones. */
export const MESSAGES_PAGE = 500;
/** Pause after a long-poll that returned empty too early. */
export const POLL_PAUSE_MS = 1_000;
