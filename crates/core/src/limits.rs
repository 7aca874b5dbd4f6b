//! Every limit of Threadline, one named constant each. Validation, documents and tests use these constants.

use std::time::Duration;

/// Longest identifier, in bytes.
pub const MAX_ID_BYTES: usize = 256;
/// Longest thread name, in bytes.
pub const MAX_NAME_BYTES: usize = 1_024;
/// Largest metadata object of a thread, in bytes of JSON.
pub const MAX_METADATA_BYTES: usize = 64 * 1_024;
/// Longest `code` or `message` kept from a failed run, in bytes; a longer text is cut.
pub const MAX_ERROR_TEXT_BYTES: usize = 4_096;
/// Largest `usage` of a terminal event that is kept with its run, in bytes of JSON.
pub const MAX_USAGE_BYTES: usize = 16 * 1_024;

/// Longest type of an annotation, in bytes.
pub const MAX_ANNOTATION_TYPE_BYTES: usize = 256;
/// Largest payload of an annotation, in bytes of JSON.
pub const MAX_ANNOTATION_BYTES: usize = 64 * 1_024;
/// Most annotations on a page: even the largest annotations fit into [`MAX_PAGE_BYTES`].
pub const MAX_ANNOTATION_PAGE: usize = 50;

/// Most labels of a namespace of key-value entries.
pub const MAX_KV_LABELS: usize = 16;
/// Longest label of a namespace, in bytes.
pub const MAX_KV_LABEL_BYTES: usize = 256;
/// Longest namespace, in bytes, with one more for each label. With the longest ids and key an entry of an index fits into a
/// third of a page of Postgres, which is the most that it may take.
pub const MAX_KV_NAMESPACE_BYTES: usize = 1_024;
/// Longest key of a key-value entry, in bytes.
pub const MAX_KV_KEY_BYTES: usize = 512;
/// Longest tag that a client chooses, in bytes.
pub const MAX_KV_TAG_BYTES: usize = 64;
/// Largest value of a key-value entry, in bytes of JSON.
pub const MAX_KV_VALUE_BYTES: usize = 1_024 * 1_024;
/// Most operations of one request on key-value entries.
pub const MAX_KV_OPS: usize = 1_000;
/// Largest request on agent data, in bytes.
pub const MAX_AGENT_DATA_BYTES: usize = MAX_BATCH_BYTES;
/// Bytes of values in one answer with agent data, all together. Also the bytes of values after which a search ends and says where to
/// continue.
pub const AGENT_DATA_ANSWER_BYTES: usize = 16 * 1_024 * 1_024;
/// Bytes that count for each row of agent data in addition to its names and its value: about what databases and their indexes add. Rows
/// are entries, items, remembered operations on lists, checkpoints, blobs and writes.
pub const AGENT_DATA_ROW_BYTES: usize = 128;
/// Most different words of a search: a pasted page of text is more than a search can use.
pub const MAX_KV_WORDS: usize = 256;
/// Longest query of a search, in bytes.
pub const MAX_KV_QUERY_BYTES: usize = 32 * 1_024;
/// Most conditions of a search on members of values, or on namespaces.
pub const MAX_KV_CONDITIONS: usize = 64;
/// Bytes of text that a search compares with words at once: each byte counts for every word. They cost as much as a slice of events.
pub const KV_COMPARED_BYTES: usize = 4 * WORK_SLICE_BYTES;
/// Longest life of a key-value entry that expires.
pub const MAX_KV_LIFE: Duration = Duration::from_secs(10 * 365 * 24 * 3_600);
/// Entries, or namespaces, that one search looks at; the answer then says where to continue. Also the largest `offset`.
pub const KV_SCANNED: usize = 10_000;
/// Entries that a search returns if the client names no limit.
pub const DEFAULT_KV_PAGE: usize = 10;
/// Most entries, or namespaces, that a search returns.
pub const MAX_KV_PAGE: usize = 1_000;
/// Longest name of an item list, in bytes.
pub const MAX_LIST_NAME_BYTES: usize = 64;
/// Longest key of an operation on an item list, in bytes.
pub const MAX_OP_KEY_BYTES: usize = 128;
/// Most item lists of a thread.
pub const MAX_ITEM_LISTS: usize = 16;
/// Most items of a list, without removed ones.
pub const MAX_LIST_ITEMS: u64 = 100_000;
/// Largest item of a list, in bytes of JSON.
pub const MAX_ITEM_BYTES: usize = 8 * 1_024 * 1_024;
/// Most bytes of the agent data of one thread: checkpoints, items (with removed ones that are still stored), and remembered operations.
pub const MAX_THREAD_DATA_BYTES: i64 = 256 * 1_024 * 1_024;
/// Items on a page of a list if the client names no limit.
pub const DEFAULT_ITEM_PAGE: usize = 100;
/// Most items on a page of a list, and most that one operation removes from its end.
pub const MAX_ITEM_PAGE: usize = 1_000;
/// Most writes of key-value entries in an operation on a list.
pub const MAX_LIST_KV_OPS: usize = 100;
/// Time for which an operation on a list is known by its key, and removed items by the operation.
pub const ITEM_OPS_KEPT: Duration = Duration::from_secs(24 * 3_600);
/// Longest namespace of checkpoints, in bytes. With the longest ids an entry of an index fits into a third of a page of Postgres.
pub const MAX_CHECKPOINT_NS_BYTES: usize = 1_024;
/// Longest id of a checkpoint, or of a task, in bytes.
pub const MAX_CHECKPOINT_ID_BYTES: usize = 256;
/// Longest name of a channel of a checkpoint, in bytes.
pub const MAX_CHANNEL_BYTES: usize = 512;
/// Longest version of a channel, in bytes.
pub const MAX_CHANNEL_VERSION_BYTES: usize = 128;
/// Longest type of the bytes of a checkpoint, in bytes.
pub const MAX_DATA_TYPE_BYTES: usize = 64;
/// Longest path of a task, in bytes.
pub const MAX_TASK_PATH_BYTES: usize = 1_024;
/// Largest value of a channel or of a write, and most bytes of a checkpoint itself.
pub const MAX_BLOB_BYTES: usize = 8 * 1_024 * 1_024;
/// Most metadata of a checkpoint, in bytes of JSON.
pub const MAX_CHECKPOINT_METADATA_BYTES: usize = 1_024 * 1_024;
/// Most channels of a checkpoint, and most blobs or writes of one request.
pub const MAX_CHECKPOINT_CHANNELS: usize = 10_000;
/// Checkpoints on a page if the client names no limit.
pub const DEFAULT_CHECKPOINT_PAGE: usize = 100;
/// Most checkpoints on a page, and most ids of a deletion.
pub const MAX_CHECKPOINT_PAGE: usize = 1_000;
/// Checkpoints that one list looks at; the answer then says where to continue.
pub const CHECKPOINTS_SCANNED: usize = 10_000;
/// Checkpoints whose parts are read at once.
pub const CHECKPOINT_GROUP: usize = 50;
/// Checkpoints that one step of a deletion removes, with their writes and blobs.
pub const CHECKPOINT_SWEEP: usize = 64;
/// Bytes of blobs after which a transaction on SQLite ends, so that a commit of the log waits for no more of them, and of what one step
/// of a copy, an export or an import holds.
pub const CHECKPOINT_PART_BYTES: usize = 1_024 * 1_024;
/// Time for which a loose blob is kept: a client may store blobs long before their checkpoint.
pub const LOOSE_BLOBS_KEPT: Duration = Duration::from_secs(3_600);
/// Rows of agent data that one statement removes: those of a deleted thread or an erased user, and those that are over.
pub const AGENT_DATA_SWEEP: usize = 512;
/// Time between two searches for agent data that is over.
pub const AGENT_DATA_INTERVAL: Duration = Duration::from_secs(60);

/// Largest single event, in bytes of JSON.
pub const MAX_EVENT_BYTES: usize = 8 * 1_024 * 1_024;
/// Largest append batch, HTTP body or socket frame, in bytes.
pub const MAX_BATCH_BYTES: usize = 16 * 1_024 * 1_024;
/// Most events in one append batch.
pub const MAX_BATCH_EVENTS: usize = 100_000;
/// Largest producerSeq: the largest whole number that every JSON reader keeps.
pub const MAX_PRODUCER_SEQ: u64 = (1 << 53) - 1;
/// Most memory that one event, or one message or state of a client's input, may take as a tree, about (see
/// [`json::weight`](crate::json::weight)): JSON of many small values takes a hundred times its bytes.
pub const MAX_TREE_BYTES: usize = 256 * 1_024 * 1_024;
/// Deepest nesting of an event or a request body.
pub const MAX_JSON_DEPTH: usize = 128;
/// Largest JSON body that is not events (create, rename, …), in bytes.
pub const MAX_REQUEST_BYTES: usize = 256 * 1_024;

/// Largest body that saves a complete conversation, in bytes.
pub const MAX_DOCUMENT_BYTES: usize = MAX_BATCH_BYTES;
/// Most messages in one saved conversation.
pub const MAX_DOCUMENT_MESSAGES: usize = MAX_BATCH_EVENTS;
/// Largest message in one saved conversation, in bytes: the rest of the event that carries it still fits into
/// [`MAX_EVENT_BYTES`].
pub const MAX_DOCUMENT_MESSAGE_BYTES: usize = MAX_EVENT_BYTES - 8 * 1_024;
/// Most entity tags that a condition may name.
pub const MAX_CONDITION_TAGS: usize = 32;

/// Page size of thread lists, run lists and the feed if the client names none.
pub const DEFAULT_PAGE: usize = 50;
/// Largest page of thread lists, run lists and the feed.
pub const MAX_PAGE: usize = 500;
/// Threads whose names one request of a search compares; the answer then says where to continue.
pub const SEARCH_ROWS: usize = 10_000;
/// Bytes of names that one request of a search compares, because long names of rare letters take long. Checked between
/// two pages.
pub const SEARCH_BYTES: usize = 1_024 * 1_024;
/// Events in a page if the client names no limit.
pub const DEFAULT_EVENT_PAGE: usize = 1_000;
/// Most events in a page.
pub const MAX_EVENT_PAGE: usize = 10_000;
/// Bytes of events read from the store at once. A page stops at the first event that passes it.
pub const PAGE_BYTES: usize = 256 * 1_024;
/// Bytes of events that a stream of another protocol translates before other tasks have their turn: translation takes longer than
/// delivery.
pub const TRANSLATED_BYTES: usize = 16 * 1_024;
/// Bytes of events in one paged answer, regardless of the number of events requested.
pub const MAX_PAGE_BYTES: usize = 4 * 1_024 * 1_024;
/// Size in bytes above which a page counts as large (it holds a large event). A large page is delivered once its
/// reader's share of the memory has room for it.
pub const LARGE_PAGE_BYTES: usize = 2 * ROW_BYTES + 1;
/// Log rows read by one statement.
pub const PAGE_ROWS: usize = 512;
/// Longest wait of a long-poll.
pub const MAX_WAIT: Duration = Duration::from_secs(60);
/// Wait of a long-poll by a client of the Durable Streams protocol, which names no time.
pub const STREAM_WAIT: Duration = Duration::from_secs(20);
/// Longest path of a plain stream, in bytes. With the longest ids an entry of an index fits into a third of a page of Postgres.
pub const MAX_STREAM_PATH_BYTES: usize = 1_024;
/// Longest media type of a plain stream, in bytes.
pub const MAX_STREAM_TYPE_BYTES: usize = 256;
/// Longest `Stream-Seq` and `Producer-Id`, in bytes.
pub const MAX_STREAM_NAME_BYTES: usize = 256;
/// Largest content of one append to a plain stream, in bytes.
pub const MAX_STREAM_APPEND_BYTES: usize = 8 * 1_024 * 1_024;
/// Bytes that count for each row of a plain stream in addition to those of its client: the stream, an append, a producer.
pub const STREAM_ROW_BYTES: usize = 128;
/// Longest `Stream-TTL`, in seconds: about 100 years.
pub const MAX_STREAM_TTL: u64 = 100 * 365 * 24 * 3_600;
/// Most streams whose data a fork reads, with its own: a fork of a fork, and so on.
pub const MAX_STREAM_FORK_DEPTH: usize = 64;
/// Appends that one statement reads.
pub const STREAM_CHUNKS: usize = 1_000;
/// Appends, producers or streams that one step of a removal removes.
pub const STREAM_SWEEP: usize = 256;
/// Part of a TTL after which a read moves the end of the stream: a read of each moment would write each time.
pub const STREAM_TOUCH_PART: u64 = 20;
/// Live readers of one stream that read a page at the same time on one node. The others wait, so that a write with many readers
/// fills no queue of work.
pub const STREAM_READS: usize = 8;
/// Time after which a node that is not alone looks again for writes of other nodes to a stream that somebody waits for, in case
/// that a hint of the bus was lost.
pub const STREAM_POLL: Duration = RECHECK_INTERVAL;
/// The same time on a node that knows of no other one.
pub const STREAM_RECHECK: Duration = Duration::from_secs(5);

/// Most batches kept in memory per followed thread; [`RING_BYTES`] holds as well.
pub const RING_BATCHES: usize = 256;
/// Most bytes of events kept in memory per followed thread; [`RING_BATCHES`] holds as well.
pub const RING_BYTES: usize = 256 * 1_024;
/// Pause after the rings of all followed threads were cut for other uses of the memory.
pub const RING_PAUSE: Duration = Duration::from_millis(100);
/// Time between two reads of the heads of all followed threads, in case a wake-up was lost.
pub const RECHECK_INTERVAL: Duration = Duration::from_secs(2);
/// Heads read by one recheck statement.
pub const RECHECK_CHUNK: usize = 512;

/// Lease of a run when the producer names none (`lockTtlSeconds`).
pub const DEFAULT_LEASE: Duration = Duration::from_secs(20);
/// Shortest lease that a producer can request.
pub const MIN_LEASE: Duration = Duration::from_secs(1);
/// Longest lease that a producer can request.
pub const MAX_LEASE: Duration = Duration::from_secs(3_600);
/// Lease of a claim of a tool call if its client names none.
pub const DEFAULT_CLAIM_LEASE: Duration = Duration::from_secs(30);
/// Shortest lease of a claim that a client can request.
pub const MIN_CLAIM_LEASE: Duration = Duration::from_secs(1);
/// Longest lease of a claim that a client can request: the time for which a tool call waits at most after the client that ran it
/// is gone.
pub const MAX_CLAIM_LEASE: Duration = Duration::from_secs(300);
/// Most claims that one start names.
pub const MAX_NAMED_CLAIMS: usize = 100;
/// Claims whose lease is over that each claim removes, of any thread: more than it adds, so that they never accumulate.
pub const SWEPT_CLAIMS: usize = 4;

/// Time between two renewals of the lease of a streamed run by the server: a third of the default lease.
pub const STREAM_HEARTBEAT: Duration = Duration::from_secs(6);
/// Timeout of a streamed run for a store that does not take its events: long enough for a restart of the database, and
/// less than the lease that most runs have.
pub const STREAM_STORE_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause before a command that waits for a queued turn asks for it again after a failure.
pub const TURN_LOOK_RETRY: Duration = Duration::from_millis(500);
/// Pause before a failed lease renewal, or a failed append, of a run is retried.
pub const WRITE_RETRY: Duration = Duration::from_millis(500);
/// Bytes of a run's events that may wait for the disk; beyond them the producer's connection is read no further.
pub const WRITE_BUFFER_BYTES: usize = 256 * 1_024;
/// Time between two searches for expired leases and overdue stops. With the time to close a run it stays below the 5 s
/// of P5.
pub const REAP_INTERVAL: Duration = Duration::from_secs(1);
/// Time that a run whose lock was released has for its last events, if its producer sends none meanwhile. With the time
/// to close it the run has ended within the 5 s of P5.
pub const RELEASE_GRACE: Duration = Duration::from_secs(4);
/// Time that a producer has to end a run after a stop was requested.
pub const STOP_GRACE: Duration = Duration::from_secs(10);
/// Active runs that the reaper looks at in one step.
pub const REAP_BATCH: usize = 500;
/// Time for which a due run is left to the node that claimed it: short enough that another node ends the run within the 5 s
/// of P5 if the first one dies.
pub const REAP_CLAIM: Duration = Duration::from_secs(2);
/// Time that an append of a complete run waits for the active run to end.
pub const COMPLETE_RUN_WAIT: Duration = Duration::from_secs(10);

/// Requests that may wait for the group commit; further appends wait for a permit (back-pressure, never a drop).
pub const COMMIT_QUEUE: usize = 1_024;
/// Most requests merged into one commit.
pub const COMMIT_MAX_REQUESTS: usize = 1_024;
/// Most bytes merged into one commit (a single larger batch still passes).
pub const COMMIT_MAX_BYTES: usize = 16 * 1_024 * 1_024;

/// Largest conversation (messages and state, about) that is folded from a log, in bytes; no model could read it.
pub const MAX_CONVERSATION_BYTES: usize = 64 * 1_024 * 1_024;
/// Most memory that such a conversation may take.
pub const MAX_CONVERSATION_MEMORY: usize = 2 * MAX_TREE_BYTES;
/// Bytes of events after which the size of a conversation that is being folded is checked.
pub const WEIGH_BYTES: usize = 8 * 1_024 * 1_024;

/// Slices of work (folds, scans of logs, searches) that a node does at once, at least: as many as it has cores.
pub const WORK_SLOTS: usize = 2;
/// Bytes of events after which work ends its slice and queues again. A slice also ends with [`WORK_SLICE_ROWS`].
pub const WORK_SLICE_BYTES: usize = 1_024 * 1_024;
/// Rows of the store after which work ends its slice and queues again. A slice also ends with [`WORK_SLICE_BYTES`].
pub const WORK_SLICE_ROWS: usize = 500;
/// Bytes of memory from which a step of work that cannot be cut (a large state is read or written as a whole) is long. A node does one
/// such step less at once than it does slices.
pub const LONG_STEP_BYTES: usize = 4 * WORK_SLICE_BYTES;
/// Size in bytes from which a body takes long to read: it is read on a thread that has no other tasks, and an input of an
/// agent waits for its turn among the work of all clients.
pub const LONG_INPUT_BYTES: usize = 128 * 1_024;
/// Events that a fold reads at once. A slice of work has at most these and one page more.
pub const FOLD_EVENTS: usize = 5_000;
/// Folds, scans and searches of one untrusted client that may have begun.
pub const CLIENT_WORK: usize = 2;
/// Folds, scans and searches of one untrusted client that may wait behind those of [`CLIENT_WORK`].
pub const CLIENT_WORK_WAITING: usize = 16;
/// Folds, scans and searches of all keys of a project that may have begun.
pub const KEY_WORK: usize = 16;
/// Folds, scans and searches of one project that may wait for their first slice. A client without any is not refused.
pub const PROJECT_WORK_WAITING: usize = 256;
/// Longest wait for a slice.
pub const WORK_WAIT: Duration = Duration::from_secs(30);
/// Bytes of events or snapshots that are one unit of work, when they are folded, scanned or read from the store.
pub const WORK_UNIT_BYTES: u64 = 64 * 1_024;
/// Price of a row that is searched, in bytes: 200 of them are one unit.
pub const SEARCHED_ROW_BYTES: usize = 328;
/// Longest time for which a debt of work delays the next request of a user or a project.
pub const MAX_WORK_DEBT: Duration = Duration::from_secs(60);
/// Cursors of unknown events that a node remembers, with what a scan of their logs has found.
pub const SCANNED_CURSORS: u64 = 10_000;
/// Pings a second of one socket, and pings at once after a pause; a socket that sends more is read more slowly.
pub const SOCKET_PINGS: u32 = 10;

/// Events of a long run after which a snapshot of its thread's projections may be due.
pub const SNAPSHOT_EVENTS: u64 = 4_096;
/// Fewest bytes of new events that are worth a snapshot.
pub const SNAPSHOT_MIN_BYTES: u64 = 64 * 1_024;
/// Divisor of the old snapshot's size: new events must reach that share of it before the next snapshot.
pub const SNAPSHOT_SHARE: u64 = 2;

/// Longest idempotency key of a request, in bytes.
pub const MAX_IDEMPOTENCY_KEY: usize = 128;

/// Time for which the deletion of a thread that was created with an idempotency key is remembered, at least.
pub const REQUEST_KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// Deletions that one purge forgets, at most.
pub const FORGOTTEN_REQUESTS: usize = 1_000;

/// Fewest events in a sealed segment.
pub const SEGMENT_MIN_EVENTS: u64 = 256;
/// Bytes of events in one log row and one delivery. A larger append is cut at events into several rows, so that readers
/// hold little memory regardless of how it arrived. A single larger event has a row of its own.
pub const ROW_BYTES: usize = 256 * 1_024;
/// Raw bytes at which a segment is cut.
pub const SEGMENT_TARGET_BYTES: usize = 256 * 1_024;
/// Most raw bytes in a segment. A larger single batch is sealed alone only if it fits.
pub const SEGMENT_MAX_BYTES: usize = 1_024 * 1_024;
/// Raw bytes below which a segment of fewer than [`SEGMENT_MIN_EVENTS`] events is open: the next packing of its thread may
/// take it in.
pub const SEGMENT_OPEN_BYTES: usize = 64 * 1_024;
/// Time without a run after which the rest of a thread is packed.
pub const PACK_IDLE: Duration = Duration::from_secs(600);
/// Time from a start to the first look at whether its thread can be packed: a run of up to a minute has ended for
/// [`PACK_IDLE`] then, so that most threads are looked at once.
pub const PACK_FIRST_LOOK: Duration = Duration::from_secs(660);
/// Time between two looks at a thread whose run goes on; each seals what is enough for full segments.
pub const PACK_ACTIVE: Duration = Duration::from_secs(3_600);
/// Log rows replaced by one sealing step in SQLite: appends wait while the step commits.
pub const SEAL_ROWS: usize = 256;
/// Pause of sealing while appends arrive, as a multiple of the time that its last step took, so that sealing does not
/// delay them. The rows that have gathered are sealed once the appends pause.
pub const SEAL_REST: u32 = 40;
/// Pause of packing while appends arrive, as a multiple of the time that the last thread took: shorter than [`SEAL_REST`],
/// because an idle thread has few rows.
pub const PACK_REST: u32 = 8;
/// Log rows removed by one step of deleting a thread.
pub const PURGE_ROWS: usize = 512;
/// Time between two looks for jobs of a kind that are due.
pub const JOB_INTERVAL: Duration = Duration::from_secs(1);
/// Jobs taken at once: few enough to end within [`JOB_CLAIM`].
pub const JOB_BATCH: usize = 32;
/// Time for which a job is left to the node that took it.
pub const JOB_CLAIM: Duration = Duration::from_secs(60);
/// Time after which an unfinished job is put back, so that its claim does not end first.
pub const JOB_SLICE: Duration = Duration::from_secs(20);
/// Tries after which a job counts as parked. Also a literal in the statements and in the index of parked jobs.
pub const JOB_TRIES: u64 = 10;
/// Time after which a job that failed is tried again, for the first time; doubled with each further try.
pub const JOB_BACKOFF: Duration = Duration::from_secs(60);
/// Longest time between two tries of a job that is not parked.
pub const JOB_BACKOFF_MAX: Duration = Duration::from_secs(3_600);
/// Time between two tries of a parked job.
pub const JOB_PARKED: Duration = Duration::from_secs(24 * 3_600);
/// Time between two writes of what a node has committed to the sums of stored data.
pub const USAGE_FLUSH: Duration = Duration::from_secs(5);
/// Users whose sums a node holds between two writes. Beyond them the sums of further users are not held: the count finds what
/// is missing.
pub const USAGE_HELD: usize = 100_000;
/// Sums of users that one statement adds to.
pub const USAGE_CHUNK: usize = 500;
/// Age of a sum that a node has read, up to which it is used without reading it again.
pub const USAGE_FRESH: Duration = Duration::from_secs(5);
/// Age of the last count of a sum from which the sum is counted again.
pub const USAGE_AGE: Duration = Duration::from_secs(24 * 3_600);
/// Time after which a new sum is counted for the first time.
pub const USAGE_FIRST_COUNT: Duration = Duration::from_secs(300);
/// Time between two passes over the sums that are due for a count.
pub const USAGE_INTERVAL: Duration = Duration::from_secs(60);
/// Sums that a pass takes at once.
pub const USAGE_BATCH: usize = 100;
/// Threads of a user that one statement of a count reads.
pub const USAGE_THREADS: usize = 500;
/// Pause of counting while commits arrive, as a multiple of the time that the last sum took.
pub const USAGE_REST: u32 = 8;
/// Number up to which parked jobs are counted.
pub const JOB_COUNT: u64 = 1_000;
/// Time between two measurements of the jobs.
pub const JOB_LEVELS_INTERVAL: Duration = Duration::from_secs(15);
/// Tombstones of a user that an erasure reads at once.
pub const TOMBSTONE_PAGE: usize = 500;
/// Feed entries removed by one step of erasing a user.
pub const FORGET_ENTRIES: usize = 4_096;
/// Threads counted by one Postgres statement of a user's footprint.
pub const FOOTPRINT_THREADS: usize = 10_000;
/// Old socket tickets removed by one step, and with each ticket made: more than one, so that their number falls.
pub const TICKET_SWEEP: usize = 64;
/// Time between two sweeps of old socket tickets if none is made: tickets hold the ids of their users.
pub const TICKET_SWEEP_INTERVAL: Duration = Duration::from_secs(60);
/// Timeout of an import of a thread: after this long without a step it is abandoned, and its staged data is removed.
pub const STAGING_TIMEOUT: Duration = Duration::from_secs(3_600);
/// Threads that one export or import transfers at once.
pub const TRANSFER_THREADS: usize = 4;
/// Time between two sweeps for leftovers of the feed, and two looks at the size of the store's files.
pub const SWEEP_INTERVAL: Duration = Duration::from_secs(5);

/// Connections that read the SQLite file. The one writer is not among them.
pub const SQLITE_READERS: u32 = 4;
/// Page cache of each SQLite connection, in KiB.
pub const SQLITE_CACHE_KIB: usize = 16 * 1_024;
/// Pages in SQLite's write-ahead log after which they are written back, next to the commits.
pub const WAL_CHECKPOINT_PAGES: i64 = 4_000;
/// Pages not written back that are few enough for a commit to wait for.
pub const WAL_REST_PAGES: i64 = 128;
/// Pages in the write-ahead log at which a commit itself writes it back, should all other ways have failed.
pub const WAL_RESTART_PAGES: u32 = 12_000;
/// Commits after which the length of the write-ahead log is checked.
pub const WAL_LOOK_COMMITS: u64 = 16;
/// Size at which the write-ahead log is written back completely and truncated.
pub const WAL_LIMIT_BYTES: u64 = 64 * 1_024 * 1_024;
/// Longest wait of that truncation ([`WAL_LIMIT_BYTES`]) for connections that still read the beginning of the log (a
/// backup does): appends wait behind it.
pub const WAL_TIMEOUT: Duration = Duration::from_millis(50);
/// Group commits of one node that run at once on Postgres, each on a connection of its own: fewer leave the node
/// waiting for the disk, more have smaller groups, and wait for each other to extend the log.
pub const PG_PIPELINES: usize = 4;
/// Postgres connections for all statements that write and may wait for a lock, so that such a wait never delays a group
/// commit.
pub const PG_WRITERS: usize = 6;
/// Postgres connections for statements that read, so that readers never take a writer's connection.
pub const PG_READERS: usize = 6;
/// Time in which a connection to Postgres must be made.
pub const PG_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time to connect to one server of several, and to learn its role.
pub const PG_HOST_TIMEOUT: Duration = Duration::from_secs(2);
/// Longest wait for one of the connections.
pub const PG_ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest wait of a statement for a lock (`lock_timeout`).
pub const PG_LOCK_TIMEOUT: Duration = Duration::from_secs(3);
/// Longest run of a statement (`statement_timeout`).
pub const PG_STATEMENT_TIMEOUT: Duration = Duration::from_secs(8);
/// Longest wait for an answer: longer than the server's own timeouts, in case the server or the network is gone.
pub const PG_ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait of a migration for a lock: another node may be migrating.
pub const PG_MIGRATION_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest wait of an adoption for the writes in progress: longer than any statement may take.
pub const PG_ADOPTION_TIMEOUT: Duration = Duration::from_secs(10);
/// Memory that a statement may use before it goes to disk, in KiB: the bodies of a group commit fit.
pub const PG_WORK_MEM_KIB: usize = 64 * 1_024;
/// Log rows replaced by one sealing step in Postgres. No append waits for it, so the rows are enough for segments of
/// full size, of which more fit on a page.
pub const PG_SEAL_ROWS: usize = 2_048;
/// Tries of a statement that loses races against other nodes.
pub const PG_RACES: usize = 16;
/// Raw bytes of log rows read by one sealing step.
pub const SEAL_BYTES: usize = 4 * 1_024 * 1_024;
/// Threads that receive their feed positions in one transaction.
pub const FEED_CHUNK: usize = 512;

/// Timeout of Redis for an answer, or for a new connection. No request waits for it longer.
pub const REDIS_TIMEOUT: Duration = Duration::from_millis(500);
/// Time after which Redis is tried again once it did not answer.
pub const REDIS_RETRY: Duration = Duration::from_secs(1);
/// Time between two pings on the connection that receives the hints of other nodes.
pub const REDIS_PING: Duration = Duration::from_secs(2);
/// Hints received and not processed yet. Beyond this number every followed thread and feed is rechecked.
pub const BUS_QUEUE: usize = 4_096;
/// Threads and feeds with changes not published yet. Beyond this number changes are lost, and found by the recheck of
/// the other nodes.
pub const BUS_PENDING: usize = 65_536;
/// Hints or subscriptions sent to Redis in one piece.
pub const BUS_PIPELINE: usize = 512;
/// Followers of a thread that a node shows; of more it gives only the number.
pub const SHOWN_FOLLOWERS: usize = 200;
/// Time that a node waits for the other nodes' answers about the followers of a thread.
pub const CENSUS_WAIT: Duration = Duration::from_millis(300);
/// Most answers of other nodes that are taken about the followers of one thread.
pub const CENSUS_ANSWERS: usize = 64;
/// Default prefix of the keys of locks in Redis (`lockKeyPrefix`).
pub const DEFAULT_LOCK_KEY_PREFIX: &str = "threadline:lock:";
/// Time between two renewals of a lock while its run is active (`lockHeartbeatIntervalSeconds`).
pub const LOCK_HEARTBEAT: Duration = Duration::from_secs(15);
/// Longest value of `lockHeartbeatIntervalSeconds`.
pub const MAX_LOCK_HEARTBEAT: Duration = Duration::from_secs(3_000);
/// Time between two checks whether a lock is due for renewal: also the pause after a renewal that failed.
pub const LOCK_TICK: Duration = Duration::from_secs(1);
/// Locks renewed at once.
pub const LOCK_CHUNK: usize = 512;

/// First pause before a server that starts tries to open its database again; each further pause is twice as long.
pub const OPEN_RETRY: Duration = Duration::from_millis(100);
/// Longest pause between two tries to open the database.
pub const OPEN_RETRY_MAX: Duration = Duration::from_secs(5);
/// Connections that a server serves while it waits for its database.
pub const WAITING_CONNECTIONS: usize = 64;
/// Time that the requests of these connections have to end once the database is open.
pub const WAITING_DRAIN: Duration = Duration::from_secs(1);
/// First pause before the adoption of a store's history is tried again. The pause doubles with every try.
pub const LINEAGE_RETRY: Duration = Duration::from_millis(50);
/// Longest of these pauses.
pub const LINEAGE_RETRY_MAX: Duration = Duration::from_secs(1);
/// Age up to which a node carries out a deletion, an erasure or a revocation again after the store has lost commits.
pub const REMOVAL_MEMORY: Duration = Duration::from_secs(15 * 60);
/// Largest number of these removals that a node keeps; older ones are dropped.
pub const REMOVALS_KEPT: usize = 10_000;
/// Time between two beats of a node.
pub const NODE_BEAT: Duration = Duration::from_secs(1);
/// Time that the store has to commit a beat.
pub const NODE_BEAT_TIMEOUT: Duration = Duration::from_secs(2);
/// Age of a node's last beat from which the node counts as lost: longer than the pause between two beats of a node that
/// is just ready.
pub const NODE_TTL: Duration = Duration::from_secs(7);
/// Age of a node's last beat from which other nodes take over the runs that it drives. A node judges so only after its own
/// beats have come in time for as long.
pub const DRIVER_TTL: Duration = Duration::from_secs(4);
/// Pause between two looks for runs without a driver.
pub const TURN_INTERVAL: Duration = Duration::from_secs(1);
/// Longest wait for the first event of a turn that has begun.
pub const TURN_BEGIN_WAIT: Duration = Duration::from_secs(5);
/// Branches of a conversation. Forks that are made at once may pass this limit by their number.
pub const MAX_BRANCHES: usize = 256;
/// Branches of a conversation that are read: all of them, also if concurrent forks have passed [`MAX_BRANCHES`].
pub const READ_BRANCHES: usize = 2 * MAX_BRANCHES;
/// Rounds in which the branches of a conversation are deleted, each with those that were forked during the one before. Forks that are
/// faster leave branches, and the deletion is refused.
pub const DELETE_ROUNDS: usize = 16;
/// Turns that wait in a thread.
pub const MAX_QUEUED_TURNS: usize = 32;
/// Turns of a user that wait, in all threads.
pub const MAX_QUEUED_TURNS_OF_USER: u64 = 256;
/// Bytes of a turn that waits: what its client has sent.
pub const MAX_QUEUED_TURN_BYTES: usize = 1 << 20;
/// Bytes of all turns that wait in a thread.
pub const MAX_QUEUE_BYTES: usize = 4 << 20;
/// Free threads with a queue that moves, which one read looks for.
pub const MOVING_QUEUES: usize = 64;
/// Lease of a run that the server drives. Its node shows that it is alive by beats, so that the lease only ends a run that
/// no server has taken over for as long.
pub const DRIVEN_LEASE: Duration = Duration::from_secs(30 * 24 * 3_600);
/// Interval of the heartbeats that keep this lease.
pub const DRIVEN_BEAT: Duration = Duration::from_secs(900);
/// Runs whose conversations one node folds at once, to take them over.
pub const TAKEOVERS_AT_ONCE: usize = 8;
/// Attempts of a run in a row that were lost before one of their events was kept, after which the run ends.
pub const MAX_FUTILE_ATTEMPTS: u64 = 3;
/// Pause before the last of them.
pub const FUTILE_PAUSE: Duration = Duration::from_secs(2);
/// Attempts of a run after which it is not taken over again, whatever they have completed.
pub const MAX_ATTEMPTS: u64 = 32;
/// Bytes of the id of an attempt at a producer's run.
pub const MAX_ATTEMPT_ID_BYTES: usize = 64;
/// Ids of displaced attempts that an active run remembers, the newest ones: a start that is sent again under one of them takes nothing up. A
/// request that is later than this many take-ups is not recognized.
pub const MAX_DISPLACED_ATTEMPTS: usize = 64;
/// Largest number of an attempt that a request may name: JavaScript counts exactly up to it.
pub const MAX_ATTEMPT: u64 = (1 << 53) - 1;
/// Attempts at a producer's run in one generation of the store. In the next one, their numbers begin above these.
pub const ATTEMPTS_OF_A_GENERATION: u64 = 1_000_000;
/// Age of its last committed beat from which a node is not ready.
pub const READY_BEAT_AGE: Duration = Duration::from_secs(5);
/// Time for which the row of a node that has ended is kept.
pub const NODE_RETENTION: Duration = Duration::from_secs(7 * 24 * 3_600);
/// Nodes in a list, those with the newest beats.
pub const MAX_LISTED_NODES: usize = 500;
/// Time that the store has to answer a readiness check.
pub const READY_TIMEOUT: Duration = Duration::from_secs(1);
/// Time between two checks of how a database keeps its commits.
pub const DURABILITY_CHECK: Duration = Duration::from_secs(60);
/// Time between two checks of Redis.
pub const REDIS_CHECK: Duration = Duration::from_secs(1);
/// Time after which a client checks again whether a server is ready.
pub const READY_RETRY_AFTER: Duration = Duration::from_secs(1);
/// Longest `x-request-id` that is taken over from a client, in bytes.
pub const MAX_REQUEST_ID_BYTES: usize = 128;

/// Connections served at once by one node.
pub const MAX_CONNECTIONS: usize = 16_384;
/// Connections of one address, or of one IPv6 network of 64 bits.
pub const ADDRESS_CONNECTIONS: usize = 256;
/// Connections reserved for clients on this machine, such as health probes; at most a quarter of all connections.
pub const LOOPBACK_CONNECTIONS: usize = 16;
/// Connections beyond the limit that are answered at once, with a refusal; more are closed.
pub const SPARE_CONNECTIONS: usize = 64;
/// Time that a connection beyond the limit has for its request and the refusal.
pub const REFUSAL_TIMEOUT: Duration = Duration::from_secs(2);
/// Time after which a refused client tries again.
pub const REFUSAL_RETRY_AFTER: Duration = Duration::from_secs(1);
/// Open files that the listener for clients leaves to the store, to agents and to the admin listener.
pub const KEPT_FILES: u64 = 256;
/// Connections of the admin listener.
pub const ADMIN_CONNECTIONS: usize = 32;
/// Time that a task has to run before the server counts as unresponsive.
pub const LIVE_TIMEOUT: Duration = Duration::from_secs(5);
/// Time in which the complete head of a request must arrive.
pub const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// Read timeout inside a request body (a streamed run may pause longer, see [`STREAM_IDLE_TIMEOUT`]).
pub const BODY_IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Time in which a complete request body must arrive (a streamed run has no such limit).
pub const BODY_DEADLINE: Duration = Duration::from_secs(300);
/// Read timeout of a streamed run whose producer has requested no lease; a blank line counts as a heartbeat.
pub const STREAM_IDLE_TIMEOUT: Duration = Duration::from_secs(600);
/// Largest message, in bytes, that is read from a page whose socket is being refused.
pub const REFUSED_MESSAGE_BYTES: usize = 16 * 1_024;
/// Time in which a refused origin is named in the log only once.
pub const REFUSED_ORIGIN_QUIET: Duration = Duration::from_secs(600);
/// Most different origins that are named in the log within [`REFUSED_ORIGIN_QUIET`].
pub const REFUSED_ORIGINS: usize = 100;
/// Most bytes of an `Origin` that its refusal repeats.
pub const ORIGIN_SHOWN: usize = 256;
/// Most bytes of the head of a request.
pub const MAX_HEAD_BYTES: usize = 32 * 1_024;
/// Most header fields in a request.
pub const MAX_HEADERS: usize = 64;
/// Time that one write to a client may take before its connection is closed.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(20);
/// Time added to [`WRITE_TIMEOUT`] for the connection itself, so that a socket is closed with its code before its
/// connection is.
pub const WRITE_GRACE: Duration = Duration::from_secs(5);
/// Time that a client has to answer the close handshake of its socket.
pub const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Bytes of request bodies that one node holds at once, a part of the shared memory; beyond it, bodies are read no
/// further until some is free.
pub const BODY_MEMORY_BYTES: usize = 256 * 1_024 * 1_024;
/// Bytes at the beginning of a body that are not counted: small requests continue while large ones wait. The number of
/// connections bounds them.
pub const BODY_FREE_BYTES: usize = 16 * 1_024;
/// Pieces (chunks of HTTP/1.1, or parts that arrive apart) of a body that may have any size.
pub const MAX_SMALL_PIECES: usize = 4_096;
/// Mean size, in bytes, that the pieces of a body need if there are more. A piece of a streamed run is charged as this many
/// bytes at least.
pub const SMALL_PIECE_BYTES: usize = 16;
/// Least memory that a node's requests, responses, messages and folds share by default, which is a quarter of the
/// machine's, see [`MEMORY_PART`].
pub const MIN_MEMORY_BYTES: usize = 256 * 1_024 * 1_024;
/// Most of the memory that is shared by default.
pub const MAX_MEMORY_BYTES: usize = 4 * 1_024 * 1_024 * 1_024;
/// Divisor of the machine's or the container's memory.
pub const MEMORY_PART: usize = 4;
/// Most memory of a project, as a multiple of the free memory: alone it gets four fifths. An untrusted client may have
/// as much as is free: alone it gets half.
pub const PROJECT_MEMORY_SHARE: usize = 4;
/// Bytes of a client that are not counted in the memory.
pub const MEMORY_FREE_BYTES: usize = 64 * 1_024;
/// Clients waiting for memory that are tried when some becomes free; the others are tried the next time.
pub const MEMORY_WAITERS_TRIED: usize = 64;
/// Bytes of memory that a fold takes at once.
pub const FOLD_STEP_BYTES: usize = 1_024 * 1_024;
/// Size in bytes below which an answer is not counted; the number of connections bounds such answers.
pub const ANSWER_FREE_BYTES: usize = 64 * 1_024;
/// Pages of events that a node reads at once for clients whose share of the memory has no room for the largest page.
pub const PAGES_BEYOND_MEMORY: usize = 4;
/// Longest wait of a body, a large answer or a fold for memory.
pub const BODY_ROOM_WAIT: Duration = Duration::from_secs(10);
/// Time that running requests have to end when the server shuts down.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for the end of a run to reach its followers over the AG-UI API; at most [`DRAIN_TIMEOUT`].
pub const RUN_END_TIMEOUT: Duration = Duration::from_secs(3);
/// Time that a draining server tells its readers to wait before they reconnect.
pub const DRAIN_RETRY_AFTER: Duration = Duration::from_millis(500);

/// Time for which a browser remembers which requests of a page are allowed.
pub const PREFLIGHT_AGE: Duration = Duration::from_secs(600);
/// Time between heartbeats on sockets and SSE streams.
pub const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);
/// Most bytes of a reference in a frame of Phoenix channels, or of the name of an event; clients count from 1.
pub const MAX_CHANNEL_REF_BYTES: usize = 64;
/// Most bytes of a topic: a kind and an id.
pub const MAX_TOPIC_BYTES: usize = 512;
/// Longest time for which the end of a run is kept from clients until its runner has its acknowledgement.
pub const ACK_FIRST: Duration = Duration::from_millis(500);
/// Longest wait of a runner for an append; the runner's own timeout is 10 s, after which it sends the same append
/// again.
pub const INGEST_TIMEOUT: Duration = Duration::from_secs(8);
/// Events read at once to find the event that a cursor names.
pub const CURSOR_PAGE: usize = 500;
/// Runs of old runners that a node remembers.
pub const MAX_LEGACY_RUNS: u64 = 10_000;
/// Newest threads whose shown fields a socket on a feed reads when it joins, to name their changes.
pub const FEED_BASELINE: usize = 100;
/// Threads whose shown fields a socket on a feed remembers.
pub const MAX_REMEMBERED_THREADS: usize = 500;
/// Time for which a node remembers the feed position at which a list was read: the client requests a token for it
/// afterwards.
pub const LIST_MEMORY: Duration = Duration::from_secs(60);
/// Positions of lists that a node remembers.
pub const MAX_LISTS: u64 = 100_000;
/// Feed positions that a token for a feed always reaches back; the client may have read its list from another node.
pub const FEED_LOOK_BACK: u64 = 32;
/// Bytes of events shown to an inspector; of a longer log only the newest events.
pub const MAX_INSPECTED_BYTES: usize = 8 * 1_024 * 1_024;
/// Time after a run's end in which a renewal of its lock is accepted without an error: the renewal was on its way.
pub const LATE_RENEWAL: Duration = Duration::from_secs(60);
/// Most subscriptions on one socket.
pub const MAX_SUBSCRIPTIONS: usize = 256;
/// Most requests that a socket of the AI SDK's API answers at a time.
pub const SOCKET_MAX_CHATS: usize = 16;
/// Append and stop frames of one socket that may be in progress at once; at this number the socket is read no further.
pub const SOCKET_MAX_INFLIGHT: usize = 256;
/// Bytes of append and stop frames of one socket that may be in progress (a single larger frame still passes).
pub const SOCKET_MAX_INFLIGHT_BYTES: usize = 4 * 1_024 * 1_024;
/// Bytes a second that a client must read while data is written to it.
pub const SOCKET_SLOWEST_READ: usize = 16 * 1_024;
/// Largest frame, in bytes, on a socket that was opened with an end user's token; larger batches go over HTTP.
pub const UNTRUSTED_FRAME_BYTES: usize = 1_024 * 1_024;
/// Read buffer of a socket in bytes: small, so that an idle subscriber stays cheap.
pub const SOCKET_READ_BUFFER: usize = 4 * 1_024;
/// Write buffer of a socket in bytes: frames are gathered until one write.
pub const SOCKET_WRITE_BUFFER: usize = 64 * 1_024;
/// Raw bytes of events put into one frame when history is replayed.
pub const FRAME_TARGET_BYTES: usize = 64 * 1_024;
/// Read timeout of a socket: one that sends nothing at all (not even a pong) for this long is closed.
pub const SOCKET_IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Time for a complete message of a socket, from its first byte; else the socket is closed. A ping does not extend it.
pub const SOCKET_MESSAGE_TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes at the beginning of an incomplete message that are not counted as memory; the number of sockets bounds them.
pub const FRAME_FREE_BYTES: u64 = 16 * 1_024;
/// Bytes of memory that an incomplete message takes at once.
pub const FRAME_STEP_BYTES: usize = 64 * 1_024;
/// Bytes a second at which a message of more than [`FRAME_FREE_BYTES`] must arrive; else its socket is closed.
pub const SOCKET_SLOWEST_MESSAGE: usize = 16 * 1_024;
/// Time in which a message may be slower than [`SOCKET_SLOWEST_MESSAGE`].
pub const SOCKET_SLOWEST_MESSAGE_GRACE: Duration = Duration::from_secs(5);

/// Topics joined over one socket of Phoenix channels. Clients join one each.
pub const MAX_CHANNELS: usize = 32;
/// Largest frame, in bytes, on a socket of Phoenix channels that was opened with an API key. A frame larger than a
/// batch is refused with a reply, because a client that lost its socket over it would send it again.
pub const CHANNEL_FRAME_BYTES: usize = 2 * MAX_BATCH_BYTES;
/// Most frames that are carried out together if they arrive together.
pub const FRAMES_TOGETHER: usize = 64;
/// Bytes of frames, about, that are carried out together: replies and pushes wait for no more than these.
pub const FRAMES_TOGETHER_BYTES: usize = 256 * 1_024;
/// Deepest nesting of a payload that is pushed to a channel: an event of a batch lies two levels deep.
pub const CHANNEL_PAYLOAD_DEPTH: usize = MAX_JSON_DEPTH + 2;
/// Longest wait of a long-poll of channels for an answer; its clients give up after 20 s.
pub const CHANNEL_POLL_WAIT: Duration = Duration::from_secs(10);
/// Timeout of a long-poll session: it has ended once its client makes no request for this long.
pub const CHANNEL_POLL_TIMEOUT: Duration = Duration::from_secs(30);
/// Long-poll sessions of one node.
pub const MAX_POLL_SESSIONS: usize = 4_096;
/// Divisor of [`MAX_POLL_SESSIONS`]: one project has at most that part of them.
pub const POLL_SESSIONS_PART: usize = 4;
/// Requests of one long-poll session that may wait for their turn.
pub const POLL_SESSION_QUEUE: usize = 4;

/// Read timeout of an agent whose definition names none.
pub const AGENT_IDLE_TIMEOUT: Duration = Duration::from_secs(120);
/// Longest read timeout that a definition can allow an agent.
pub const MAX_AGENT_IDLE_TIMEOUT: Duration = Duration::from_secs(3_600);
/// Timeout of an agent's events while the store accepts none. The driver then stops, and the run is ended by this node
/// if possible, else by the reaper once the lease has expired.
pub const AGENT_STORE_TIMEOUT: Duration = Duration::from_secs(60);
/// Agent runs that one node drives at once.
pub const MAX_AGENT_RUNS: usize = 4_096;
/// Agents of a project that were made over the API.
pub const MAX_AGENTS: usize = 1_000;
/// Largest definition of an agent, in bytes of JSON.
pub const MAX_AGENT_BYTES: usize = 64 * 1_024;

/// Most messages in one input of an agent. A client whose thread has more sends only the new ones.
pub const MAX_INPUT_MESSAGES: usize = 10_000;
/// Most tools, entries of `context`, answers to interrupts, and members unknown to AG-UI, in one input of an agent.
pub const MAX_INPUT_ITEMS: usize = 1_000;
/// Memory that the start of an agent's run takes for each byte of its input: the input, what is built from it for the log,
/// for the agent and for a takeover.
pub const INPUT_COPIES: usize = 6;
/// Memory that a request to an API that translates takes, as a multiple of its body as a tree: the values, and AG-UI's input that is
/// made from them.
pub const TREE_COPIES: usize = 2;
/// Largest state that the demo agent reads; a larger one it only adds to.
pub const DEMO_STATE_BYTES: usize = 64 * 1_024;

/// Largest `context` that a page may give a model, in bytes of JSON. A caller with a key may give more.
pub const MAX_CLIENT_CONTEXT_BYTES: usize = 64 * 1_024;
/// Bytes of the tools, and of the context, up to which they are kept with a run of an agent whose `record` is `full`.
pub const MAX_RECORDED_BYTES: usize = 64 * 1_024;
/// Bytes of the names of a run's tools that are noted with the run. The results of other tools are not accepted from
/// untrusted clients.
pub const MAX_NOTED_TOOL_BYTES: usize = 64 * 1_024;
/// Most interrupts that stay open over a run that neither answers nor repeats them: beyond this number the newer ones
/// are forgotten.
pub const MAX_OPEN_INTERRUPTS: usize = 256;
/// Most bytes of JSON, about, of the interrupts in [`MAX_OPEN_INTERRUPTS`].
pub const MAX_OPEN_INTERRUPT_BYTES: usize = 1_024 * 1_024;
/// Largest interrupt that a thread's row lists whole, in bytes of JSON.
pub const MAX_LISTED_INTERRUPT_BYTES: usize = 8 * 1_024;
/// Bytes of JSON of the interrupts in a thread's row beyond which an interrupt is cut, and beyond which the row lists no
/// further ones of later runs.
pub const MAX_LISTED_INTERRUPTS_BYTES: usize = 64 * 1_024;
/// Most interrupts that one run settles in its thread's row.
pub const MAX_ANSWERS: usize = 512;
/// Most threads in a page of an inbox.
pub const MAX_INBOX_PAGE: usize = 100;
/// Threads whose interrupts are read at once for a page of an inbox.
pub const INBOX_CHUNK: usize = 10;
/// Bytes of interrupts after which a page of an inbox ends.
pub const INBOX_BYTES: usize = 1_024 * 1_024;
/// Longest text in an interrupt that is cut, in bytes.
pub const MAX_INTERRUPT_SUMMARY_BYTES: usize = 256;
/// Interrupts of a thread, no longer open, that are distinguished from unknown ones.
pub const MAX_SETTLED_INTERRUPTS: usize = 256;
/// Bytes of the ids of messages, calls and activities, with their subagents, that the validation of one run remembers.
pub const MAX_OWNED_BYTES: usize = 4 * 1_024 * 1_024;
/// Bytes of memory that the validation of a streamed run takes at once.
pub const VALIDATION_STEP_BYTES: usize = 64 * 1_024;
/// Pause of a streamed run whose validation has no memory, before it asks again.
pub const ROOM_LOOK: Duration = Duration::from_millis(100);
/// Bytes that the validations of all runs of a node may take between two appends. Beyond them the events of a run are read again.
pub const VALIDATION_BYTES: usize = 32 * 1_024 * 1_024;
/// Open messages, tool calls and steps of one run that its closer remembers; of more it closes only these.
pub const MAX_OPEN_PARTS: usize = 1_024;
/// Most runs of a chat that the API of the AI SDK reads, from the newest back.
pub const MAX_CHAT_RUNS: usize = 1_000;
/// Most items of a page of the OpenAI API.
pub const MAX_OPENAI_PAGE: usize = 100;
/// Most items that one request of the OpenAI API adds to a conversation.
pub const MAX_OPENAI_ITEMS: usize = 20;
/// Removed items of a conversation that forks of the OpenAI API leave out.
pub const MAX_REMOVED_ITEMS: usize = 1_000;
/// Time for which a repetition of a request of the OpenAI API without an `Idempotency-Key` is recognized. Its clients wait 10
/// minutes for a response, and repeat a request twice at once after that.
pub const OPENAI_RETRY_LIFE: Duration = Duration::from_secs(45 * 60);
/// Time for which the start of a response that is not stored is remembered: a repeated request does not run the agent again.
pub const OPENAI_UNSTORED_LIFE: Duration = Duration::from_hours(24);
/// Most bytes of the messages of a chat in a response of the AI SDK's API; older messages are left out.
pub const MAX_CHAT_BYTES: usize = 16 * 1024 * 1024;
/// Most tool calls of one UI message; later calls have no chunks.
pub const MAX_UI_CALLS: usize = 10_000;
/// Most texts of one UI message whose ids are those of their messages; ids of later texts have a number as well.
pub const MAX_UI_TEXTS: usize = 10_000;
/// Most bytes of the incomplete blocks of a message in a stream of LangGraph's API. A longer text goes on in another block; longer
/// arguments come with the next values.
pub const MAX_BLOCK_BYTES: usize = 256 * 1_024;
/// Most messages of a run that a stream of LangGraph's API tells from new ones.
pub const MAX_STREAMED_MESSAGES: usize = 10_000;
/// Most threads that a search or a count of LangGraph's API looks at.
pub const MAX_SEARCHED_THREADS: usize = SEARCH_ROWS;
/// Most threads, runs, states or assistants in one answer of LangGraph's API.
pub const MAX_LANGGRAPH_PAGE: usize = 1_000;
/// Largest output of one response in OpenAI's API, in bytes of its texts and arguments, about. The rest is left out, and the response
/// is `incomplete`.
pub const MAX_RESPONSE_BYTES: usize = 16 * 1_024 * 1_024;
/// Most bytes of the results that an agent's own tool calls have in one response in OpenAI's API. In place of a larger one, its size is
/// named; conversations have all of it.
pub const MAX_RESPONSE_RESULT_BYTES: usize = 4 * 1_024 * 1_024;
/// Most bytes of the settings of a request that its response repeats in OpenAI's API: instructions, tools, metadata and others.
pub const MAX_ECHO_BYTES: usize = 256 * 1_024;
/// Bytes of the ids of the parts in [`MAX_OPEN_PARTS`], and of the ids in the run's RUN_STARTED, so that the closing
/// events fit into one batch.
pub const MAX_OPEN_BYTES: usize = 1_024 * 1_024;
/// Bytes of a run's newest CUSTOM events that a CopilotKit client receives again when it reconnects.
pub const MAX_CUSTOM_BYTES: usize = 256 * 1_024;
/// Runs that are ended in parallel on behalf of their producers.
pub const REAPERS: usize = 16;

/// Longest time to connect to an agent.
pub const AGENT_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of an agent's refusal that are logged.
pub const AGENT_REFUSAL_BYTES: usize = 2 * 1_024;
/// Time in which the bytes of an agent's refusal must have arrived.
pub const AGENT_REFUSAL_TIMEOUT: Duration = Duration::from_secs(2);

/// Widest name from the user's first words, in columns; a character of Chinese or Japanese takes two. A longer text is
/// cut, see [`NAME_CLAUSE_WORDS`].
pub const NAME_COLUMNS: usize = 60;
/// Fewest words of a clause at whose end a text longer than [`NAME_COLUMNS`] is cut.
pub const NAME_CLAUSE_WORDS: usize = 3;
/// Most words of a name that a model is asked to make for a thread.
pub const NAME_WORDS: usize = 5;
/// Most words of a model's answer that is still cut to a name; a longer answer is no name.
pub const NAME_WORDS_TOLERATED: usize = 8;
/// Characters that count as one word in scripts that have no spaces between words (Chinese, Japanese, Thai, …).
pub const NAME_WORD_CHARACTERS: usize = 3;
/// Longest generated name, in characters as people count them.
pub const NAME_CHARACTERS: usize = 60;
/// Longest character of a generated name, in bytes: some people stack hundreds of accents.
pub const NAME_CHARACTER_BYTES: usize = 64;
/// Runs that have begun or ended on a node and whose threads wait for a name; the threads of further runs are named
/// with a later run.
pub const NAMING_QUEUE: usize = 1_024;
/// Threads that wait for a name from a model; further threads wait for a later run.
pub const TITLE_QUEUE: usize = 256;
/// Threads that one node names at once, and requests for names that it sends to models at once.
pub const NAMERS: usize = 4;
/// First runs of a thread after which a model is asked for a name: an endpoint that fails receives no more requests
/// than this.
pub const NAMING_RUNS: i64 = 3;
/// Bytes of a thread's log, from its beginning, in which the first question and its answer are searched for.
pub const NAMING_LOG_BYTES: usize = 1_024 * 1_024;
/// The user's first messages that are tried for a name: not all of them hold words.
pub const NAMING_MESSAGES: usize = 16;
/// Bytes of one of the user's first messages in which a name is searched for.
pub const NAMING_TEXT_BYTES: usize = 16 * 1_024;
/// Bytes of the user's message, and of the answer to it, that a model receives; also the longest line that can hold a
/// name.
pub const NAMING_SHOWN_BYTES: usize = 2 * 1_024;
/// Time that a model has to answer with a name.
pub const NAMING_TIMEOUT: Duration = Duration::from_secs(20);
/// Bytes of events that a model may send for a name.
pub const NAMING_STREAM_BYTES: usize = 1_024 * 1_024;
/// Bytes of text that a model may send for a name, of which its reasoning is often a part.
pub const NAMING_ANSWER_BYTES: usize = 32 * 1_024;
/// Failures in a row after which the endpoint that names threads is left alone for [`NAMING_REST`].
pub const NAMING_FAILURES: u32 = 3;
/// Time for which an endpoint that has failed repeatedly is left alone.
pub const NAMING_REST: Duration = Duration::from_secs(30);
/// Time for naming when a node shuts down, for the runs that have just ended.
pub const NAMING_DRAIN: Duration = Duration::from_secs(2);

/// Size of a conversation's state, in bytes of JSON (about), that no STATE_DELTA may make it exceed; the same for one
/// activity's content, and for all bytes that `copy` operations of ACTIVITY_DELTAs put into a conversation.
pub const MAX_STATE_BYTES: usize = 16 * 1_024 * 1_024;
/// Work that the patches of a conversation may cost at the beginning, beyond their own length: array elements moved
/// aside, bytes of values that are copied or moved deeper.
pub const PATCH_WORK: i64 = 16 * 1_024 * 1_024;
/// Work added to [`PATCH_WORK`] for each byte of a conversation's events of state and activities, so that an insertion
/// at the front of a list of some thousands is always possible.
pub const PATCH_WORK_PER_BYTE: i64 = 32;

/// Longest end user's token, in bytes.
pub const MAX_TOKEN_BYTES: usize = 8 * 1_024;
/// Largest difference between the clocks of token issuers and the store's, unless set otherwise.
pub const TOKEN_LEEWAY: Duration = Duration::from_secs(30);
/// Longest value that [`TOKEN_LEEWAY`] can be set to.
pub const MAX_TOKEN_LEEWAY: Duration = Duration::from_secs(600);
/// Lifetime of a token that Threadline makes, if the request names none.
pub const TOKEN_LIFETIME: Duration = Duration::from_secs(3_600);
/// Longest life of a user's token, in seconds, unless the project sets another.
pub const TOKEN_SECONDS: u64 = 7 * 24 * 3_600;
/// Longest life that a project can give its users' tokens, in seconds. Sign-outs are remembered for as long.
pub const MAX_TOKEN_SECONDS: u64 = 30 * 24 * 3_600;
/// Longest time by which a token may be issued in the future: the clock of its issuer may be wrong, but a token from
/// the future would outlive a sign-out.
pub const ISSUED_AHEAD: Duration = Duration::from_secs(10);
/// Time between two reads of the sign-outs of other nodes.
pub const CUTOFF_LOOK: Duration = Duration::from_secs(5);
/// Time after which all nodes know a sign-out, and have answered what they accepted before they knew it.
pub const CUTOFF_KNOWN: Duration = Duration::from_secs(7);
/// Time before the last read from which sign-outs are read again: another node's commit may have been slow, and its
/// clock behind.
pub const CUTOFF_OVERLAP: Duration = Duration::from_secs(120);
/// Secrets of a project with which tokens may be signed: the newest, and the one before it.
pub const MAX_TOKEN_SECRETS: usize = 2;
/// Lifetime of a token for a thread's topic.
pub const JOIN_LIFETIME: Duration = Duration::from_secs(600);
/// Lifetime of a token for a feed's topic. The clients reconnect with the token that they have and never request
/// another.
pub const FEED_TOKEN_LIFETIME: Duration = Duration::from_secs(7 * 24 * 3_600);
/// Lifetime of a socket ticket.
pub const TICKET_LIFETIME: Duration = Duration::from_secs(60);
/// Time for which a node reuses its knowledge of a key or a project: a key that is revoked on another node is refused
/// after this long.
pub const KEY_MEMORY: Duration = Duration::from_secs(5);
/// Keys that a node remembers, unknown ones included.
pub const MAX_KEYS_REMEMBERED: u64 = 100_000;
/// Pause before the projects are read again for one that was not found.
pub const PROJECT_MISS_PAUSE: Duration = Duration::from_millis(200);
/// Time between two checks that the key behind a socket or stream is still valid.
pub const CREDENTIAL_CHECK: Duration = Duration::from_secs(15);
/// Longest lifetime of a key that is not valid for ever: 100 years.
pub const MAX_KEY_LIFETIME: Duration = Duration::from_secs(36_500 * 24 * 3_600);
/// Keys of one project.
pub const MAX_KEYS: usize = 1_000;
/// Time between two notes of the last uses of keys.
pub const KEY_USE_NOTE: Duration = Duration::from_secs(60);
/// Time after which noted tokens are in the audit log.
pub const TRAIL_FLUSH: Duration = Duration::from_secs(1);
/// Time over which refusals, and the tokens of a key, are summed for the audit log.
pub const TRAIL_SUM: Duration = Duration::from_secs(60);
/// Tokens of a key within [`TRAIL_SUM`] that have an entry each in the audit log.
pub const TRAIL_TOKENS: u64 = 10;
/// Entries of the audit log that a node keeps while the store is unavailable; later ones are lost.
pub const TRAIL_ENTRIES_KEPT: usize = 10_000;
/// Groups of refusals in one entry of the audit log; the others are one sum.
pub const TRAIL_GROUPS: usize = 100;
/// Groups of refusals that a node keeps apart until it writes the entry.
pub const TRAIL_GROUPS_KEPT: usize = 1_000;
/// Days for which entries of the audit log are kept, unless the project sets another number.
pub const AUDIT_DAYS: u32 = 400;
/// Most days for which entries of the audit log can be kept: 100 years.
pub const MAX_AUDIT_DAYS: u32 = 36_500;
/// Old entries of the audit log removed by one statement.
pub const AUDIT_SWEEP: usize = 1_000;
/// Age at which an entry of the audit log is sent to readers that follow the log: entries of several nodes may be
/// committed in another order than that of their numbers.
pub const AUDIT_SETTLED: Duration = Duration::from_secs(5);
/// Time between two reads of the audit log for a reader that follows it.
pub const AUDIT_POLL: Duration = Duration::from_secs(1);
/// Origins in a project's list.
pub const MAX_AGENT_ORIGINS: usize = 100;
/// Longest time of a retention setting, in days.
pub const MAX_RETENTION_DAYS: u32 = 36_500;
/// Days for which a thread stays in the trash, unless the project has another number.
pub const TRASH_DAYS: u32 = 7;
/// Most days for which a thread stays in the trash.
pub const MAX_TRASH_DAYS: u32 = 90;
/// Time for which the public keys of an issuer are used before they are fetched again.
pub const JWKS_FRESH: Duration = Duration::from_secs(600);
/// Pause before the public keys of an issuer are fetched again for a key that is not among them.
pub const JWKS_MISS_PAUSE: Duration = Duration::from_secs(30);
/// Time in which the public keys of an issuer must have arrived.
pub const JWKS_TIMEOUT: Duration = Duration::from_secs(5);
/// Most bytes of an issuer's public keys.
pub const JWKS_BYTES: usize = 256 * 1_024;
/// Issuers whose keys a node remembers.
pub const MAX_ISSUERS: u64 = 1_000;
/// Time between two passes of retention over a project.
pub const RETENTION_INTERVAL: Duration = Duration::from_secs(3_600);
/// Time from the start of a node to its first look for projects that have retention, and no job for it yet.
pub const RETENTION_FIRST: Duration = Duration::from_secs(60);
/// Time between two of these looks.
pub const RETENTION_LOOK: Duration = Duration::from_secs(15 * 60);
/// Threads read by one statement of retention.
pub const RETENTION_WINDOW: usize = 500;
/// Threads that retention puts in the trash at once in any project, however few threads the project has.
pub const RETENTION_FREE: u64 = 100;
/// Part of a project's threads that retention puts in the trash at once: one in this many. More need an approval.
pub const RETENTION_SHARE: u64 = 5;
/// Threads named by one of retention's entries in the audit log.
pub const RETENTION_AUDIT_IDS: usize = 100;

/// Requests a second, frames of sockets included, that an end user may send to one node.
pub const USER_REQUESTS_PER_SECOND: u64 = 100;
/// Requests of an end user that one node accepts at once after a pause.
pub const USER_REQUEST_BURST: u64 = 500;
/// Units of work a second of an end user on one node: requests, and what they fold, scan and read.
pub const USER_WORK_PER_SECOND: u64 = 400;
/// Units of work of an end user on one node at once after a pause.
pub const USER_WORK_BURST: u64 = 4_000;
/// Bytes of events that an end user may have stored.
pub const USER_STORED_BYTES: u64 = 1_024 * 1_024 * 1_024;
/// Threads that an end user may have stored, those in the trash included.
pub const USER_THREADS: u64 = 10_000;
/// Largest append with which a run may end although the storage is full.
pub const STORAGE_CLOSING_BYTES: usize = 64 * 1_024;
/// Percent of a file system below which untrusted clients store nothing more in a data directory, if that is less than
/// [`STORAGE_LOW_BYTES`].
pub const STORAGE_LOW_PERCENT: u64 = 10;
/// Free bytes below which untrusted clients store nothing more in a data directory, if that is less than
/// [`STORAGE_LOW_PERCENT`].
pub const STORAGE_LOW_BYTES: u64 = 2 * 1_024 * 1_024 * 1_024;
/// Percent of a file system below which nobody stores anything more in a data directory, if that is less than
/// [`STORAGE_FULL_BYTES`].
pub const STORAGE_FULL_PERCENT: u64 = 5;
/// Free bytes below which nobody stores anything more in a data directory, if that is less than
/// [`STORAGE_FULL_PERCENT`].
pub const STORAGE_FULL_BYTES: u64 = 1_024 * 1_024 * 1_024;
/// Time between two looks at the free bytes of the file system.
pub const STORAGE_CHECK: Duration = Duration::from_secs(2);
/// Sockets and event streams that an end user may have open on one node.
pub const USER_SOCKETS: u64 = 32;
/// Runs of an end user that may be active, on all nodes together.
pub const USER_RUNS: u64 = 16;
/// Bytes a second that an end user may append through one node.
pub const USER_APPEND_BYTES_PER_SECOND: u64 = 4 * 1_024 * 1_024;
/// Bytes that an end user may append through one node at once after a pause.
pub const USER_APPEND_BYTE_BURST: u64 = 32 * 1_024 * 1_024;
/// Largest value of a quota that can be set.
pub const MAX_QUOTA: u64 = 1_000_000_000_000;
/// Users and projects whose consumption a node remembers.
pub const QUOTA_KEYS: u64 = 100_000;
/// Time for which the consumption of an idle user or project is remembered: by then a burst is available again, unless
/// its limits are unusual.
pub const QUOTA_IDLE: Duration = Duration::from_secs(600);
/// Delay after which to retry a request for a permit whose release time is unknown: of a run, of a socket, of a body.
pub const QUOTA_RETRY: Duration = Duration::from_secs(1);
/// Largest time by which the newest events of a log may be ahead of the store's clock: up to it, the next events get
/// the time of the newest ones.
pub const MAX_LOG_AHEAD: Duration = Duration::from_secs(3_600);
/// Damages of the files of a data directory that a verification lists.
pub const VERIFY_DAMAGES: usize = 20;
/// Active runs whose leases are renewed in one commit after the store's clock was set.
pub const RENEW_CHUNK: usize = 500;
/// Largest error of a node's expectation of the store's clock: half of the longest round trip of a beat that counts. Also the
/// largest step of a data directory's clock with which no lease is moved.
pub const CLOCK_ERROR: Duration = Duration::from_millis(500);
/// Delay of a node's own timer above which the node has stood still, and does not trust its expectation of the store's
/// clock.
pub const TIMER_DELAY: Duration = Duration::from_secs(2);
/// Difference between the store's clock and what a node expects above which the clock was set, forward or back. Also
/// the time by which a lease must be too long, so that no heartbeat can have given it.
pub const CLOCK_STEP: Duration = Duration::from_secs(5);
/// Largest difference between the clocks of the store and of a node that is not reported as a finding.
pub const MAX_SKEW: Duration = Duration::from_secs(10);
/// Time after a step of the store's clock for which retention does nothing, so that people can set the clock right.
pub const CLOCK_STEP_HOLD: Duration = Duration::from_secs(24 * 3_600);
/// Age of the newest beat of other nodes, when a node is started, from which the store's clock may have been set meanwhile.
pub const MAX_BEAT_GAP: Duration = Duration::from_secs(25 * 3_600);
/// Largest difference between the clocks of the store and of a node at which the node counts as one that is right.
pub const MAX_RETENTION_SKEW: Duration = Duration::from_secs(5 * 60);
/// Time that a node of several still serves all clients after SIGTERM, unless set otherwise: by then balancers that
/// probe every second or two send their clients to other nodes.
pub const DRAIN_DELAY: Duration = Duration::from_secs(5);
/// Time over which a node of several closes its sockets and streams when it shuts down, unless set otherwise.
pub const DRAIN_SPREAD: Duration = Duration::from_secs(10);
/// Time that active runs of agents have to end by themselves when their node shuts down, unless set otherwise.
pub const DRAIN_RUNS: Duration = Duration::from_secs(10);
/// Time between two checks whether a connection is still open while a node shuts down.
pub const DEPARTURE_CHECK: Duration = Duration::from_millis(100);
/// Longest value that each of the times of a shutdown can be set to.
pub const MAX_DRAIN_DELAY: Duration = Duration::from_secs(600);
/// Fewest characters of the operator's key. 22 characters of Base64 are 128 random bits.
pub const MIN_OPERATOR_KEY_CHARS: usize = 22;
/// Fewest different characters of an operator key: random text of that length has more, a repeated word has fewer.
pub const MIN_OPERATOR_KEY_DIFFERENT: usize = 10;
