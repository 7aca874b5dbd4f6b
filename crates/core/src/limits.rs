//! Every limit of Threadline, one named constant each. Validation, documents and tests use these.

use std::time::Duration;

/// Longest identifier, in bytes.
pub const MAX_ID_BYTES: usize = 256;
/// Longest thread name, in bytes.
pub const MAX_NAME_BYTES: usize = 1_024;
/// Largest metadata object of a thread, in bytes of JSON.
pub const MAX_METADATA_BYTES: usize = 64 * 1_024;
/// Longest `code` or `message` kept from a failed run, in bytes; longer ones are cut.
pub const MAX_ERROR_TEXT_BYTES: usize = 4_096;
/// Largest `usage` of a terminal event that is kept with its run, in bytes of JSON.
pub const MAX_USAGE_BYTES: usize = 16 * 1_024;

/// Longest type of an annotation, in bytes.
pub const MAX_ANNOTATION_TYPE_BYTES: usize = 256;
/// Largest payload of an annotation, in bytes of JSON.
pub const MAX_ANNOTATION_BYTES: usize = 64 * 1_024;
/// Annotations on a page, at most: even the largest fit into [`MAX_PAGE_BYTES`].
pub const MAX_ANNOTATION_PAGE: usize = 50;

/// Largest single event, in bytes of JSON.
pub const MAX_EVENT_BYTES: usize = 8 * 1_024 * 1_024;
/// Largest append batch, HTTP body or socket frame, in bytes.
pub const MAX_BATCH_BYTES: usize = 16 * 1_024 * 1_024;
/// Most events in one append batch.
pub const MAX_BATCH_EVENTS: usize = 100_000;
/// Largest producerSeq: the largest whole number that every JSON reader keeps.
pub const MAX_PRODUCER_SEQ: u64 = (1 << 53) - 1;
/// Deepest nesting of an event or a request body.
pub const MAX_JSON_DEPTH: usize = 128;
/// Largest JSON body that is not events (create, rename, …), in bytes.
pub const MAX_REQUEST_BYTES: usize = 256 * 1_024;

/// Largest body that saves a conversation as a whole.
pub const MAX_DOCUMENT_BYTES: usize = MAX_BATCH_BYTES;
/// Most messages in one.
pub const MAX_DOCUMENT_MESSAGES: usize = MAX_BATCH_EVENTS;
/// Largest message in one; what the event that brings it says beside it fits behind it.
pub const MAX_DOCUMENT_MESSAGE_BYTES: usize = MAX_EVENT_BYTES - 8 * 1_024;
/// Entity tags that a condition may name.
pub const MAX_CONDITION_TAGS: usize = 32;

/// Page size of thread lists, run lists and the feed: used when the client names none.
pub const DEFAULT_PAGE: usize = 50;
/// Largest page of thread lists, run lists and the feed.
pub const MAX_PAGE: usize = 500;
/// Threads whose names one request of a search looks at; then it says where to go on.
pub const SEARCH_ROWS: usize = 10_000;
/// The same in bytes of these names: long ones of rare letters take long to compare. It is looked at between two pages.
pub const SEARCH_BYTES: usize = 1_024 * 1_024;
/// Events in a page when the client names no limit.
pub const DEFAULT_EVENT_PAGE: usize = 1_000;
/// Most events in a page.
pub const MAX_EVENT_PAGE: usize = 10_000;
/// Bytes of events read from the store at once. A page stops at the first event that passes it.
pub const PAGE_BYTES: usize = 256 * 1_024;
/// Bytes of events in one paged answer, whatever number of events was asked for.
pub const MAX_PAGE_BYTES: usize = 4 * 1_024 * 1_024;
/// A page larger than this (it holds an event that is) is delivered only while it finds room in …
pub const LARGE_PAGE_BYTES: usize = 2 * ROW_BYTES + 1;
/// … this many bytes, which all readers of a node share: stuck readers of large events cost no more.
pub const LARGE_PAGES_BYTES: usize = 64 * 1_024 * 1_024;
/// Log rows read by one statement.
pub const PAGE_ROWS: usize = 512;
/// Longest time that a long-poll waits.
pub const MAX_WAIT: Duration = Duration::from_secs(60);

/// Events kept in memory per followed thread: this many batches …
pub const RING_BATCHES: usize = 256;
/// … and this many bytes, whichever is reached first.
pub const RING_BYTES: usize = 256 * 1_024;
/// How often a node asks the store for the heads of all followed threads, in case a wake-up was lost.
pub const RECHECK_INTERVAL: Duration = Duration::from_secs(2);
/// Heads asked for by one recheck statement.
pub const RECHECK_CHUNK: usize = 512;

/// Lease of a run when the producer names none (`lockTtlSeconds`).
pub const DEFAULT_LEASE: Duration = Duration::from_secs(20);
/// Shortest lease.
pub const MIN_LEASE: Duration = Duration::from_secs(1);
/// Longest lease.
pub const MAX_LEASE: Duration = Duration::from_secs(3_600);
/// How often the server renews the lease of a streamed run: a third of the default lease.
pub const STREAM_HEARTBEAT: Duration = Duration::from_secs(6);
/// How long a streamed run waits for a store that does not take its events: long enough for a restart of the database, and
/// less than the lease that most runs have.
pub const STREAM_PATIENCE: Duration = Duration::from_secs(10);
/// Pause before such a renewal, or such an append, is tried again.
pub const STREAM_RETRY: Duration = Duration::from_millis(500);
/// How often expired leases and overdue stops are looked for. With the time to close it stays below the 5 s of P5.
pub const REAP_INTERVAL: Duration = Duration::from_secs(1);
/// Time that a run whose lock was released has for its last events, if it is silent meanwhile. With the time to close it
/// the run is over within the 5 s of P5.
pub const RELEASE_GRACE: Duration = Duration::from_secs(4);
/// Time that a producer has to end a run after a stop was asked.
pub const STOP_GRACE: Duration = Duration::from_secs(10);
/// Runs closed by one sweep of the reaper.
pub const REAP_BATCH: usize = 256;
/// Time that a whole-run append waits for the active run to end.
pub const WHOLE_RUN_WAIT: Duration = Duration::from_secs(10);

/// Requests waiting for the group commit; further appends wait for room (back-pressure, never a drop).
pub const COMMIT_QUEUE: usize = 1_024;
/// Most requests merged into one commit.
pub const COMMIT_MAX_REQUESTS: usize = 1_024;
/// Most bytes merged into one commit (a single larger batch still passes).
pub const COMMIT_MAX_BYTES: usize = 16 * 1_024 * 1_024;

/// Largest conversation (messages and state, about) that is folded from a log; no model could read it.
pub const MAX_CONVERSATION_BYTES: usize = 64 * 1_024 * 1_024;
/// Conversations that one node folds at once; others wait.
pub const MAX_FOLDS: usize = 16;
/// Bytes of events after which a conversation that is being folded is weighed.
pub const WEIGH_BYTES: usize = 8 * 1_024 * 1_024;

/// Events of a long run after which a snapshot of its thread's projections may be due.
pub const SNAPSHOT_EVENTS: u64 = 4_096;
/// Fewest bytes of new events that are worth a snapshot …
pub const SNAPSHOT_MIN_BYTES: u64 = 64 * 1_024;
/// … and the share of the old snapshot's size that they must reach: one in this many.
pub const SNAPSHOT_SHARE: u64 = 2;

/// Fewest events in a sealed segment.
pub const SEGMENT_MIN_EVENTS: u64 = 256;
/// Bytes of events in one log row and one delivery; a larger append is cut at events into several, so that readers
/// hold little however it came in. A single larger event has a row of its own.
pub const ROW_BYTES: usize = 256 * 1_024;
/// Raw bytes at which a segment is cut.
pub const SEGMENT_TARGET_BYTES: usize = 256 * 1_024;
/// Most raw bytes in a segment. A larger single batch is sealed alone only if it fits.
pub const SEGMENT_MAX_BYTES: usize = 1_024 * 1_024;
/// Bytes appended to a thread after which it is sealed while its run goes on: several segments at once, because each
/// sealing is a commit of its own.
pub const SEAL_AFTER_BYTES: usize = 1_024 * 1_024;
/// Log rows replaced by one sealing step in SQLite: appends wait while it commits.
pub const SEAL_ROWS: usize = 256;
/// While appends are coming in, sealing rests this many times as long as its last step took, so that it stays out of
/// their way; what has gathered is sealed when they pause.
pub const SEAL_REST: u32 = 40;
/// Log rows removed by one step of deleting a thread.
pub const PURGE_ROWS: usize = 512;
/// Feed entries removed by one step of forgetting a user.
pub const FORGET_ENTRIES: usize = 4_096;
/// Threads counted by one statement on Postgres when it is asked what there is of a user.
pub const FOOTPRINT_THREADS: usize = 10_000;
/// Old socket tickets removed by one step, and when one is made: more than one, so that they become fewer.
pub const TICKET_SWEEP: usize = 64;
/// How often old socket tickets are swept though none is made: they hold the ids of their users.
pub const TICKET_SWEEP_INTERVAL: Duration = Duration::from_secs(60);
/// After this long without a step an import of a thread is given up, and what it has staged is removed.
pub const STAGING_PATIENCE: Duration = Duration::from_secs(3_600);
/// Threads that one export or import has under way at once.
pub const TRANSFER_THREADS: usize = 4;
/// How often leftovers of sealing, deleting and the feed are swept.
pub const SWEEP_INTERVAL: Duration = Duration::from_secs(5);

/// Connections that read the SQLite file. Its one writer is not among them.
pub const SQLITE_READERS: u32 = 4;
/// Page cache of each SQLite connection, in KiB.
pub const SQLITE_CACHE_KIB: usize = 16 * 1_024;
/// Pages in SQLite's write-ahead log after which they are written back, beside the commits.
pub const WAL_CHECKPOINT_PAGES: i64 = 4_000;
/// Pages not written back that are few enough for a commit to wait for.
pub const WAL_REST_PAGES: i64 = 128;
/// Pages in the write-ahead log at which a commit writes it back by itself, should all else have failed.
pub const WAL_RESTART_PAGES: u32 = 12_000;
/// Commits after which the length of the write-ahead log is looked at.
pub const WAL_LOOK_COMMITS: u64 = 16;
/// Size at which the write-ahead log is written back whole and truncated.
pub const WAL_LIMIT_BYTES: u64 = 64 * 1_024 * 1_024;
/// How long that waits for whoever still reads the beginning of the log (a backup does): appends wait behind it.
pub const WAL_PATIENCE: Duration = Duration::from_millis(50);
/// Group commits of one node that are under way at once on Postgres, each on a connection of its own: fewer leave it waiting for
/// the disk, more have smaller groups, and wait for each other to extend the log; …
pub const PG_PIPELINES: usize = 4;
/// … connections for all that writes and may wait for a lock, so that it never keeps a group commit waiting; …
pub const PG_WRITERS: usize = 6;
/// … and for what reads, so that readers never take a writer's place.
pub const PG_READERS: usize = 6;
/// Time in which a connection to Postgres must be made.
pub const PG_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest wait for one of the connections.
pub const PG_ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest wait of a statement for a lock (`lock_timeout`).
pub const PG_LOCK_TIMEOUT: Duration = Duration::from_secs(3);
/// Longest run of a statement (`statement_timeout`).
pub const PG_STATEMENT_TIMEOUT: Duration = Duration::from_secs(8);
/// How long an answer is waited for: longer than the server's own time-outs, for when the server or the network is gone.
pub const PG_ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait of a migration for a lock: another node may be migrating.
pub const PG_MIGRATION_TIMEOUT: Duration = Duration::from_secs(60);
/// Memory that a statement may use before it goes to disk, in KiB: a group commit's bodies fit.
pub const PG_WORK_MEM_KIB: usize = 64 * 1_024;
/// Log rows replaced by one sealing step: no append waits for it, so there are enough for segments of full size, of which
/// more fit on a page.
pub const PG_SEAL_ROWS: usize = 2_048;
/// Tries of what lost a race against another node.
pub const PG_RACES: usize = 16;
/// Raw bytes of log rows read by one sealing step.
pub const SEAL_BYTES: usize = 4 * 1_024 * 1_024;
/// Positions that a feed is moved up by once a backup was put back: more than it can ever have given, and few enough that
/// thousands of backups may be put back before a position is no whole number of JSON any more.
pub const FEED_RENEWAL: u64 = 1 << 40;
/// Threads whose logs get another epoch in one transaction.
pub const RENEWAL_CHUNK: usize = 4_096;
/// Threads that get their feed positions in one transaction.
pub const FEED_CHUNK: usize = 512;

/// Time that Redis has for an answer, or for a new connection. Nothing waits for it longer.
pub const REDIS_TIMEOUT: Duration = Duration::from_millis(500);
/// Time after which Redis is tried again once it did not answer.
pub const REDIS_RETRY: Duration = Duration::from_secs(1);
/// How often the connection that hears of other nodes is asked whether it is still there.
pub const REDIS_PING: Duration = Duration::from_secs(2);
/// Hints heard and not looked at yet. Beyond it all that is followed is rechecked.
pub const BUS_QUEUE: usize = 4_096;
/// Threads and feeds with news not told yet. Beyond it news are lost, and found by the other nodes' recheck.
pub const BUS_PENDING: usize = 65_536;
/// Hints or subscriptions sent to Redis in one piece.
pub const BUS_PIPELINE: usize = 512;
/// Followers of a thread that a node shows; beyond them it says how many there are.
pub const SHOWN_FOLLOWERS: usize = 200;
/// How long a node waits for what the others say about a thread's followers.
pub const CENSUS_WAIT: Duration = Duration::from_millis(300);
/// Nodes that can answer such a question.
pub const CENSUS_ANSWERS: usize = 64;
/// Begins the keys of locks in Redis (`lockKeyPrefix`).
pub const DEFAULT_LOCK_KEY_PREFIX: &str = "threadline:lock:";
/// How often a lock is renewed while its run is active (`lockHeartbeatIntervalSeconds`) …
pub const LOCK_HEARTBEAT: Duration = Duration::from_secs(15);
/// … which is at most this long.
pub const MAX_LOCK_HEARTBEAT: Duration = Duration::from_secs(3_000);
/// How often it is looked whether a lock is to be renewed: also the pause after a renewal that failed.
pub const LOCK_TICK: Duration = Duration::from_secs(1);
/// Locks renewed at once.
pub const LOCK_CHUNK: usize = 512;

/// Time that the store has to answer when it is asked whether the node is ready …
pub const READY_TIMEOUT: Duration = Duration::from_secs(1);
/// … and for how long its answer is good, so that probes do not load it.
pub const READY_MEMORY: Duration = Duration::from_secs(1);
/// Longest `x-request-id` that is taken over from whoever sends it.
pub const MAX_REQUEST_ID_BYTES: usize = 128;

/// Connections served at once by one node.
pub const MAX_CONNECTIONS: usize = 16_384;
/// Time to send the whole head of a request.
pub const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest silence inside a request body (a streamed run may pause longer, see below).
pub const BODY_IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for a whole request body (a streamed run has none).
pub const BODY_DEADLINE: Duration = Duration::from_secs(300);
/// Longest silence of a streamed run whose producer has asked for no lease; a blank line counts as a sign of life.
pub const STREAM_IDLE_TIMEOUT: Duration = Duration::from_secs(600);
/// A page that is refused is named in the log once in this time …
pub const REFUSED_ORIGIN_QUIET: Duration = Duration::from_secs(600);
/// … and so many different ones in it.
pub const REFUSED_ORIGINS: usize = 100;
/// Bytes of an Origin that its refusal repeats, at most.
pub const ORIGIN_SHOWN: usize = 256;
/// Most bytes of the head of a request.
pub const MAX_HEAD_BYTES: usize = 32 * 1_024;
/// Most header fields in a request.
pub const MAX_HEADERS: usize = 64;
/// Time that one write to a client may take before its connection is closed …
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(20);
/// … and this much more where nobody can be told why: a socket is to be closed with its code before its connection is.
pub const WRITE_GRACE: Duration = Duration::from_secs(5);
/// Time that a client has to answer when its socket is closed.
pub const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Bytes of request bodies that one node holds at once; further ones are read no further until there is room.
pub const BODY_MEMORY_BYTES: usize = 256 * 1_024 * 1_024;
/// The beginning of a body, which is not counted: small requests go on while large ones wait. The connections bound it.
pub const BODY_FREE_BYTES: usize = 16 * 1_024;
/// A stranger holds at most one part in this many of the room for bodies, but always enough for one batch, and of the room
/// for answers.
pub const STRANGERS_PART: usize = 8;
/// Bytes of large answers that one node holds at once, until their clients have read them.
pub const ANSWER_MEMORY_BYTES: usize = 256 * 1_024 * 1_024;
/// Answers below this size are not counted; the connections bound them.
pub const ANSWER_FREE_BYTES: usize = 64 * 1_024;
/// How long a body or a large answer waits for room.
pub const BODY_ROOM_WAIT: Duration = Duration::from_secs(10);
/// Time for requests under way to end when the server shuts down.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for the end of a run to reach who follows it through the door of AG-UI; at most [`DRAIN_TIMEOUT`].
pub const RUN_END_TIMEOUT: Duration = Duration::from_secs(3);
/// What a draining server tells its readers to wait before they reconnect.
pub const DRAIN_RETRY_AFTER: Duration = Duration::from_millis(500);

/// How long a browser remembers which requests of a page are let in.
pub const PREFLIGHT_AGE: Duration = Duration::from_secs(600);
/// Time between heartbeats on sockets and SSE streams.
pub const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);
/// Bytes of a reference in a frame of Phoenix channels, or of the name of an event; clients count from 1.
pub const MAX_CHANNEL_REF_BYTES: usize = 64;
/// Bytes of a topic: a kind and an id.
pub const MAX_TOPIC_BYTES: usize = 512;
/// How long the end of a run is kept from clients at most, until its runner has its acknowledgement.
pub const ACK_FIRST: Duration = Duration::from_millis(500);
/// How long a runner waits for an append; its own patience is 10 s, and it sends the same again.
pub const INGEST_PATIENCE: Duration = Duration::from_secs(8);
/// Cursors that are looked for in old parts of logs at the same time.
pub const MAX_CURSOR_SCANS: usize = 2;
/// Events read at once to find the one that a cursor names.
pub const CURSOR_PAGE: usize = 500;
/// Runs of old runners that a node remembers.
pub const MAX_LEGACY_RUNS: u64 = 10_000;
/// The newest threads, whose looks a socket on a feed reads when it joins, to name their changes.
pub const FEED_BASELINE: usize = 100;
/// Threads whose looks a socket on a feed remembers.
pub const MAX_REMEMBERED_THREADS: usize = 500;
/// Suggestions that an agent makes for one user at the same time.
pub const MAX_SUGGESTING: usize = 4;
/// For how long a node remembers where a list was that was read: the client asks for a token behind it.
pub const LIST_MEMORY: Duration = Duration::from_secs(60);
/// Lists that a node remembers.
pub const MAX_LISTS: u64 = 100_000;
/// How far a token for a feed reaches back in any case; its client may have read its list from another node.
pub const FEED_LOOK_BACK: u64 = 32;
/// Bytes of events shown to an inspector; of a longer log the newest ones.
pub const MAX_INSPECTED_BYTES: usize = 8 * 1_024 * 1_024;
/// How long after its end a run's lock may be renewed without anybody being told: the renewal was on its way.
pub const LATE_RENEWAL: Duration = Duration::from_secs(60);
/// Subscriptions on one socket.
pub const MAX_SUBSCRIPTIONS: usize = 256;
/// Append and stop frames of one socket that may be under way at once; then the socket is read no further.
pub const SOCKET_MAX_INFLIGHT: usize = 256;
/// Bytes of such frames that may be under way (a single larger frame still passes).
pub const SOCKET_MAX_INFLIGHT_BYTES: usize = 4 * 1_024 * 1_024;
/// Bytes a second that a client must read while something is written to it.
pub const SOCKET_SLOWEST_READ: usize = 16 * 1_024;
/// Largest frame on a socket that was opened with an end user's token; larger batches go over HTTP.
pub const STRANGER_FRAME_BYTES: usize = 1_024 * 1_024;
/// Read buffer of a socket: small, so that an idle subscriber stays cheap.
pub const SOCKET_READ_BUFFER: usize = 4 * 1_024;
/// Write buffer of a socket: frames gathered until one write.
pub const SOCKET_WRITE_BUFFER: usize = 64 * 1_024;
/// Raw bytes of events put into one frame when history is replayed.
pub const FRAME_TARGET_BYTES: usize = 64 * 1_024;
/// A socket that sends nothing at all (not even a pong) for this long is closed.
pub const SOCKET_IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Time for a whole message of a socket, from its first byte; else the socket is closed. Pings put nothing off.
pub const SOCKET_MESSAGE_TIMEOUT: Duration = Duration::from_secs(30);

/// Topics joined over one socket of Phoenix channels. Their clients join one each.
pub const MAX_CHANNELS: usize = 32;
/// Largest frame on such a socket that was opened with an API key: what is larger than a batch is refused with a reply,
/// because a client that lost its socket over it would send it again.
pub const CHANNEL_FRAME_BYTES: usize = 2 * MAX_BATCH_BYTES;
/// Frames that have come together are carried out together, up to this many …
pub const FRAMES_TOGETHER: usize = 64;
/// … or about this many bytes: replies and pushes wait for no more than these.
pub const FRAMES_TOGETHER_BYTES: usize = 256 * 1_024;
/// Deepest nesting of what is pushed to a channel: an event of a batch lies two levels deep.
pub const CHANNEL_PAYLOAD_DEPTH: usize = MAX_JSON_DEPTH + 2;
/// Longest time that a long-poll of channels waits for something to answer; its clients give up after 20 s.
pub const CHANNEL_POLL_WAIT: Duration = Duration::from_secs(10);
/// A long-poll session whose client does not come back for this long is over.
pub const CHANNEL_POLL_PATIENCE: Duration = Duration::from_secs(30);
/// Long-poll sessions of one node.
pub const MAX_POLL_SESSIONS: usize = 4_096;
/// Of these, one in so many is for one project at most.
pub const POLL_SESSIONS_PART: usize = 4;
/// Requests of one such session that wait for their turn.
pub const POLL_SESSION_QUEUE: usize = 4;

/// Longest silence of an agent when its definition names none.
pub const AGENT_IDLE_TIMEOUT: Duration = Duration::from_secs(120);
/// Longest silence that a definition can allow an agent.
pub const MAX_AGENT_IDLE_TIMEOUT: Duration = Duration::from_secs(3_600);
/// Bytes of an agent's events that wait for the disk; beyond it the agent's connection is read no further.
pub const AGENT_BUFFER_BYTES: usize = 256 * 1_024;
/// Time between two tries to store an agent's events while the store is away.
pub const AGENT_RETRY: Duration = Duration::from_millis(500);
/// How long an agent's events may wait for a store that takes nothing; then the run is given up, and ended by whoever
/// can: here, or by the reaper once its lease is over.
pub const AGENT_PATIENCE: Duration = Duration::from_secs(60);
/// Runs of agents that one node has under way at once.
pub const MAX_AGENT_RUNS: usize = 4_096;
/// Agents of a project that were made over the API.
pub const MAX_AGENTS: usize = 1_000;
/// Largest definition of an agent, in bytes of JSON.
pub const MAX_AGENT_BYTES: usize = 64 * 1_024;

/// Bytes of JSON of the `context` that a page may give a model. Who has a key may give more.
pub const MAX_CLIENT_CONTEXT_BYTES: usize = 64 * 1_024;
/// Interrupts that stay open over a run that neither answers nor repeats them: beyond this number the newer ones are forgotten.
pub const MAX_OPEN_INTERRUPTS: usize = 256;
/// Bytes of JSON, about, that these hold.
pub const MAX_OPEN_INTERRUPT_BYTES: usize = 1_024 * 1_024;
/// Interrupts of a thread, no longer open, that are told from those that it never had.
pub const MAX_SETTLED_INTERRUPTS: usize = 256;
/// Open messages, tool calls and steps of one run that its closer remembers; of more it closes only these.
pub const MAX_OPEN_PARTS: usize = 1_024;
/// Bytes of their ids, and of the ids in the run's RUN_STARTED, so that the closing events fit into one batch.
pub const MAX_OPEN_BYTES: usize = 1_024 * 1_024;
/// Bytes of a run's newest CUSTOM events that a CopilotKit client is told again when it comes back.
pub const MAX_CUSTOM_BYTES: usize = 256 * 1_024;
/// Runs that are ended side by side on behalf of their producers.
pub const REAPERS: usize = 16;

/// Longest time to connect to an agent.
pub const AGENT_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of an agent's refusal that are logged …
pub const AGENT_REFUSAL_BYTES: usize = 2 * 1_024;
/// … and the time in which they must have arrived.
pub const AGENT_REFUSAL_TIMEOUT: Duration = Duration::from_secs(2);

/// Columns of a name from the user's first words, at most; a character of Chinese or Japanese takes two. What is longer is cut …
pub const NAME_COLUMNS: usize = 60;
/// … where a clause of at least so many words ends.
pub const NAME_CLAUSE_WORDS: usize = 3;
/// Words of a name that a model made up for a thread, at most.
pub const NAME_WORDS: usize = 5;
/// Words of a model's answer that is still cut to a name; a longer one is no name.
pub const NAME_WORDS_TOLERATED: usize = 8;
/// What one word is worth in characters of scripts that have no spaces between words (Chinese, Japanese, Thai, …).
pub const NAME_WORD_CHARACTERS: usize = 3;
/// Longest name that is made up, in characters as people count them …
pub const NAME_CHARACTERS: usize = 60;
/// … and the longest of these, in bytes: some people stack hundreds of accents.
pub const NAME_CHARACTER_BYTES: usize = 64;
/// Runs that have begun or ended on a node and whose threads wait for a name; of more the threads get theirs with a later run.
pub const NAMING_QUEUE: usize = 1_024;
/// Threads that wait to be named by a model; of more a later run brings it up again.
pub const TITLE_QUEUE: usize = 256;
/// Threads that one node names at once, and models that it asks at once for names.
pub const NAMERS: usize = 4;
/// A thread is named by a model after one of its first runs, or not at all: so an endpoint that fails is asked this often.
pub const NAMING_RUNS: i64 = 3;
/// Bytes of a thread's log, from its beginning, in which the first question and its answer are looked for.
pub const NAMING_LOG_BYTES: usize = 1_024 * 1_024;
/// The user's first messages of which one may be the first that can be a name: not all say something in words.
pub const NAMING_MESSAGES: usize = 16;
/// Bytes of such a message in which a name is looked for …
pub const NAMING_TEXT_BYTES: usize = 16 * 1_024;
/// … and of it, and of the answer to it, that a model is shown; also the longest line that can hold a name.
pub const NAMING_SHOWN_BYTES: usize = 2 * 1_024;
/// Time that a model has for a name.
pub const NAMING_TIMEOUT: Duration = Duration::from_secs(20);
/// Bytes of events that it may send for it …
pub const NAMING_STREAM_BYTES: usize = 1_024 * 1_024;
/// … and of text: what it thinks is often part of that.
pub const NAMING_ANSWER_BYTES: usize = 32 * 1_024;
/// Failures in a row after which the endpoint that names threads is left alone …
pub const NAMING_FAILURES: u32 = 3;
/// … for this long.
pub const NAMING_REST: Duration = Duration::from_secs(30);
/// Time that names have at the end of a node, for the runs that have just ended.
pub const NAMING_DRAIN: Duration = Duration::from_secs(2);

/// Size of a conversation's state, in bytes of JSON (about), that no STATE_DELTA lets it pass; the same for one
/// activity's content, and for all that `copy` operations of ACTIVITY_DELTAs put into a conversation.
pub const MAX_STATE_BYTES: usize = 16 * 1_024 * 1_024;
/// Work that the patches of a conversation may cost beyond their own length: array elements moved aside, bytes of what
/// is copied or moved deeper. This much at the beginning …
pub const PATCH_WORK: i64 = 16 * 1_024 * 1_024;
/// … and this much for each byte of its events of state and activities; so a front insertion into a list of some thousands is always possible.
pub const PATCH_WORK_PER_BYTE: i64 = 32;

/// Longest end user's token, in bytes.
pub const MAX_TOKEN_BYTES: usize = 8 * 1_024;
/// How far the clocks of those who make tokens may be apart from ours.
pub const TOKEN_LEEWAY: Duration = Duration::from_secs(10);
/// Lifetime of a token that is made here, if none is asked for …
pub const TOKEN_LIFETIME: Duration = Duration::from_secs(3_600);
/// … and the longest.
pub const MAX_TOKEN_LIFETIME: Duration = Duration::from_secs(7 * 24 * 3_600);
/// Secrets of a project with which tokens may be signed: the newest, and the one before it.
pub const MAX_TOKEN_SECRETS: usize = 2;
/// Time in which a token for a thread's topic is to be used.
pub const JOIN_LIFETIME: Duration = Duration::from_secs(600);
/// Lifetime of a token for a feed's topic. Clients of it reconnect with the one that they have and never ask for another.
pub const FEED_TOKEN_LIFETIME: Duration = Duration::from_secs(7 * 24 * 3_600);
/// Lifetime of a socket ticket.
pub const TICKET_LIFETIME: Duration = Duration::from_secs(60);
/// How long a node goes by what it knows of a key or a project: a key that is revoked on another node is refused after
/// this long.
pub const KEY_MEMORY: Duration = Duration::from_secs(5);
/// Keys that a node remembers, those that do not exist among them.
pub const MAX_KEYS_REMEMBERED: u64 = 100_000;
/// Pause before the projects are looked through again for one that was not there.
pub const PROJECT_MISS_PAUSE: Duration = Duration::from_millis(500);
/// How often it is looked whether the key behind a socket or stream is valid still.
pub const CREDENTIAL_CHECK: Duration = Duration::from_secs(15);
/// Longest lifetime of a key that is not valid for ever: 100 years.
pub const MAX_KEY_LIFETIME: Duration = Duration::from_secs(36_500 * 24 * 3_600);
/// Keys of one project.
pub const MAX_KEYS: usize = 1_000;
/// Longest time after which retention does anything, in days.
pub const MAX_RETENTION_DAYS: u32 = 36_500;
/// How long the public keys of an issuer are used before they are fetched again.
pub const JWKS_FRESH: Duration = Duration::from_secs(600);
/// Pause before they are fetched again for a key that is not among them.
pub const JWKS_MISS_PAUSE: Duration = Duration::from_secs(30);
/// Time in which they must have come.
pub const JWKS_TIMEOUT: Duration = Duration::from_secs(5);
/// Most bytes that they may have.
pub const JWKS_BYTES: usize = 256 * 1_024;
/// Issuers whose keys a node remembers.
pub const MAX_ISSUERS: u64 = 1_000;
/// How often threads are looked through for those that nobody has used for long.
pub const RETENTION_INTERVAL: Duration = Duration::from_secs(3_600);
/// Keys looked at by one statement of it.
pub const RETENTION_WINDOW: usize = 20_000;
/// Threads named by one of its entries in the audit.
pub const RETENTION_AUDIT_IDS: usize = 100;

/// Requests a second, frames of sockets included, that an end user may send to one node …
pub const USER_REQUESTS_PER_SECOND: u64 = 100;
/// … and this many at once after a rest.
pub const USER_REQUEST_BURST: u64 = 500;
/// Sockets and event streams that an end user may have open on one node.
pub const USER_SOCKETS: u64 = 32;
/// Runs that an end user may have under way, on all nodes together.
pub const USER_RUNS: u64 = 16;
/// Bytes a second that an end user may append through one node …
pub const USER_APPEND_BYTES_PER_SECOND: u64 = 4 * 1_024 * 1_024;
/// … and this many at once after a rest.
pub const USER_APPEND_BYTE_BURST: u64 = 32 * 1_024 * 1_024;
/// Largest value of a quota that can be set.
pub const MAX_QUOTA: u64 = 1_000_000_000_000;
/// What users and projects have used is remembered for this many of them …
pub const QUOTA_KEYS: u64 = 100_000;
/// … for this long after they were last heard of: by then a burst has come back, unless its limits are odd ones.
pub const QUOTA_IDLE: Duration = Duration::from_secs(600);
/// When to come again for a place that is given back at nobody knows what time: of a run, of a socket, of a body.
pub const QUOTA_RETRY: Duration = Duration::from_secs(1);
/// Farthest that the clocks of the store and of a node may be apart for the node to archive and delete what is old.
pub const MAX_RETENTION_SKEW: Duration = Duration::from_secs(5 * 60);
/// Time that a node of several still answers everybody after SIGTERM, unless it is set otherwise: balancers that probe every
/// second or two have sent their clients elsewhere by then.
pub const DRAIN_DELAY: Duration = Duration::from_secs(5);
/// Longest time that this may be set to.
pub const MAX_DRAIN_DELAY: Duration = Duration::from_secs(600);
/// Fewest characters of the operator's key. 22 of Base64 are 128 random bits.
pub const MIN_OPERATOR_KEY_CHARS: usize = 22;
