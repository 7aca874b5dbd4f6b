"""All limits and intervals of the package, one named constant each. Times are in seconds."""

from typing import Final

# Requests.

BACKOFF_BASE: Final = 0.25
"""Upper bound of the first delay after a failure; the bound doubles with every consecutive failure."""
BACKOFF_MAX: Final = 5.0
"""Upper bound of every delay, and so of the time in which a client notices that the server is back."""
RETRY_AFTER_MAX: Final = 300.0
"""The longest delay that is honored if a server, or a proxy before it, requests one."""
READS_RETRY: Final = 10.0
"""Retry time of calls that read, after lost responses and while the server is not ready."""
WRITES_RETRY: Final = 10.0
"""Retry time of calls that change data."""
PRODUCERS_RETRY: Final = 60.0
"""Retry time of producers, whose work would be lost."""
OTHER_RUN_WAIT: Final = 60.0
"""Time for which a complete run waits until another run ends, while the server responds."""
REQUEST_TIMEOUT: Final = 30.0
"""Timeout of one request."""
WHOLE_RUN_TIMEOUT: Final = 11.0
"""Shortest timeout of a request that appends a complete run: the server may delay its response by up to 10 s."""
LAST_TRY: Final = 1.0
"""Shortest timeout of any other request, so that the last try can still succeed."""
TOKEN_TIMEOUT: Final = 30.0
"""Timeout of an asynchronous token callback."""
REFRESH_AT_SHARE: Final = 0.8
"""Share of a token's lifetime after which the next one is requested."""
CONNECTIONS: Final = 100
"""Connections for requests; streams have connections of their own."""
CUT_TEXT: Final = 200
"""Characters of a foreign response that an error quotes."""

# Producers.

DEFAULT_LEASE: Final = 20.0
"""Lease of a run, if its producer specifies none."""
MAX_LEASE: Final = 3_600.0
"""The longest lease."""
BEAT_MAX: Final = 3.0
"""Longest interval between heartbeats of an otherwise silent producer, which bounds the delay of a stop request."""
FAILED_BEAT: Final = 1.0
"""Maximum delay before a failed heartbeat is repeated, instead of waiting for the next one."""
BATCH_EVENTS: Final = 1_000
"""Maximum number of events that a producer sends in one request. A larger append is sent in several."""
BATCH_BYTES: Final = 1_000_000
"""Maximum size of one request of a producer, in bytes of JSON. A larger event is sent on its own."""
PENDING_EVENTS: Final = 10_000
"""Maximum number of events that are queued in a producer; a further append waits for room."""
PENDING_BYTES: Final = 16_000_000
"""Maximum size of the queued events, in bytes of JSON; 16 MiB is the server's limit of a batch."""
SENT_BYTES: Final = 4 * 1_024 * 1_024
"""Maximum size of the acknowledged events that a producer keeps: they are sent again if the server has lost them."""
CANCEL_TIMEOUT: Final = 5.0
"""Time in which the run of a cancelled body is ended as failed; after that its lease ends it."""
WORKER_JOIN: Final = 5.0
"""Time for which the end of a run waits for the OS threads of its producer, whose last request may still be in flight."""
TAKEOVER_EVENTS: Final = 16
"""Events of a run among which the one that names its newest attempt is found. Only snapshots follow it."""
MAX_FAILURE_CHARS: Final = 10_000
"""Characters of an exception's text that RUN_ERROR has."""

# Readers.

OPEN_TIMEOUT: Final = 10.0
"""Timeout for opening a transport, after which another one is considered."""
HEARTBEAT: Final = 15.0
"""Interval of the server's heartbeats."""
MISSED_HEARTBEATS: Final = 3
"""Number of missed heartbeats after which a connection counts as dead."""
CHECK: Final = 5.0
"""Time within which a connection has to respond to a check."""
STRIKES: Final = 2
"""Number of consecutive failures to open, while the server is reachable, after which a transport is abandoned."""
PREFER_AGAIN: Final = 300.0
"""Time on a less preferred transport after which a new connection tries the best one again."""
OFFLINE_RETRY: Final = 30.0
"""Interval of connection attempts without a network."""
LINGER: Final = 1.0
"""Time for which a shared connection stays open without subscriptions."""
STREAMS: Final = 16
"""Concurrent event streams and long-polls of a client: half of the streams that a server allows one user."""
TURN: Final = 2.0
"""Length of one subscription's turn, where there are more subscriptions than concurrent streams."""
POLL: Final = 25.0
"""Time for which a long-poll waits for a change: shorter than the idle timeouts of proxies."""
POLL_PAUSE: Final = 1.0
"""Pause after a long-poll that returned empty too early."""

# Agent data.

ITEM_PAGE: Final = 1_000
"""Items that an iterator over a list requests at once, the server's limit. A page is shorter if its items exceed 16 MiB."""
KV_OPS: Final = 1_000
"""Operations of a batch on key-value entries, the server's limit."""
KV_PAGE: Final = 1_000
"""Entries, or namespaces, that a LangGraph store requests at once, the server's limit."""
CHECKPOINT_BYTES: Final = 12_000_000
"""Maximum Base64, in bytes, of a request with parts of a checkpoint: the server's limit is 16 MiB a request, and 8 MiB a blob."""
CHECKPOINT_PAGE: Final = 20
"""Checkpoints with their values that a saver requests first: a caller may need only the newest ones."""
CHECKPOINT_PAGE_GROWTH: Final = 5
"""Factor by which each further page of checkpoints is larger than the page before."""
CHECKPOINT_PAGE_MAX: Final = 500
"""Maximum of checkpoints with their values that a saver requests at once. The server ends a page at 16 MiB."""
CHECKPOINT_HEADS: Final = 1_000
"""Checkpoints without values that a saver requests at once, and ids that it deletes at once."""

KV_BATCH: Final = 1_000
"""Operations in one batch on entries, the server's limit."""
LIST_WRITES: Final = 100
"""Writes of entries in one operation on a list, the server's limit."""
USERS_AT_ONCE: Final = 16
"""Users whose state an adapter reads concurrently, for a list of the sessions of all users."""
LIST_CHUNK_BYTES: Final = 8 * 1_024 * 1_024
"""Maximum bytes of items in one operation of an adapter: half of the server's limit for a request. An item is never split."""

# Agents as endpoints.

ENDPOINT_EVENTS: Final = 1_000
"""Events of an agent that wait for its caller; a further append waits for room."""
ENDPOINT_BEAT: Final = 15.0
"""Silence after which an endpoint sends a comment."""
MAX_INPUT_BYTES: Final = 64 * 1_024 * 1_024
"""Largest input of an agent, in bytes."""

# The fold, with the limits of the server.

MAX_JSON_DEPTH: Final = 128
"""Deepest nesting of an event, and of the result of a patch."""
MAX_STATE_BYTES: Final = 16 * 1_024 * 1_024
"""Approximate size of a state, in bytes of JSON, that no STATE_DELTA may make it exceed; the same for one activity's
content, and for all bytes that `copy` operations of ACTIVITY_DELTAs put into a conversation."""
PATCH_WORK: Final = 16 * 1_024 * 1_024
"""Work that the patches of a conversation may cost at first, beyond their own length: array elements moved aside, bytes of
values that are copied or moved deeper."""
PATCH_WORK_PER_BYTE: Final = 32
"""Work added to the budget for each byte of the events of state and activities."""
MAX_ID_BYTES: Final = 256
"""Longest id that the server accepts, in bytes of UTF-8."""
MAX_OPEN_INTERRUPTS: Final = 256
"""Most interrupts that stay open over a run that neither answers nor repeats them."""
MAX_OPEN_INTERRUPT_BYTES: Final = 1_024 * 1_024
"""Approximate size of these interrupts, in bytes of JSON."""
MAX_ANSWERS: Final = 1_000
"""Most interrupts that are open at all: the input of a run can answer no more."""
MAX_DRAFTS: Final = 65_536
"""Objects that are kept as changeable between two reads. Beyond that number all become immutable: one more copy of an
object that changes again, for a bound on memory."""

SERVER_START: Final = 30.0
"""Seconds in which a server of tests has to listen."""

# Streams of other packages.

MAX_KEPT_CHARS: Final = 1_000_000
"""Characters of JSON beyond which an item that is kept as it is, in a CUSTOM event, is only named."""
MAX_KEPT_DEPTH: Final = 100
"""Nesting beyond which a kept item is cut, and any other is not mapped: the server accepts events of at most 128 levels."""
MAX_VALUES: Final = 1_000_000
"""Objects and lists beyond which an item is not mapped: events of 8 MiB hold fewer that say anything."""
MAX_KEPT_VALUES: Final = 10_000
"""Objects and lists in a kept item beyond which the rest is only named."""
