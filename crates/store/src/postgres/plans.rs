//! Query plans of the hot statements.

use sqlx::{AssertSqlSafe, Executor, PgConnection, Row};

use super::{
    OpenError, PgStore, address::Address, append, attempts, checkpoints, feed, items, kv, log, nodes, queue, runs,
    seal, start, streams, tables, threads, turns,
};
use crate::sql::tables::{credentials, identity, snapshots, usage};

/// The hot statements, by name.
const HOT: [(&str, &str); 129] = [
    ("append one", append::ONE),
    ("append a group", append::GROUP),
    ("append a group with ends", append::WIDE),
    ("append one with its end", append::WIDE_ONE),
    ("page after", log::AFTER),
    ("page before", log::BEFORE),
    ("heads", log::HEADS),
    ("start", start::START),
    ("close", start::CLOSE),
    ("look", start::LOOK),
    ("run", runs::BY_ID),
    ("runs", runs::RUNS),
    ("heartbeat", runs::HEARTBEAT),
    ("heartbeat, waiting", runs::HEARTBEAT_WAIT),
    ("stop", runs::STOP),
    ("release", runs::RELEASE),
    ("claim of due runs", runs::CLAIM_DUE),
    ("active runs", runs::ACTIVE_RUNS),
    ("claim of turns", turns::CLAIM),
    ("takeover", turns::TAKE),
    ("turns of a node", crate::sql::turns::OF),
    ("take-up", attempts::TAKE_UP),
    ("turn of a producer", crate::sql::attempts::TURN),
    ("queue", queue::QUEUE),
    ("change of a queue", queue::CHANGE),
    ("advance of a queue", queue::ADVANCE),
    ("queues that move", queue::MOVING),
    ("queued turns of a user", crate::sql::queue::COUNT),
    ("thread", threads::BY_ID),
    ("thread without a user", threads::NAMED),
    ("thread that has an id", threads::TAKEN),
    ("list, recent", threads::LISTS.recent),
    ("list, created", threads::LISTS.created),
    ("list, recent, failed", threads::LISTS.recent_failed),
    ("list, created, failed", threads::LISTS.created_failed),
    ("list, recent, waiting", threads::LISTS.recent_waiting),
    ("list, created, waiting", threads::LISTS.created_waiting),
    ("list, running", threads::LISTS.running),
    ("open interrupts", threads::OPEN_INTERRUPTS),
    ("create", threads::CREATE),
    ("thread by key", threads::BY_KEY),
    ("edit", threads::EDIT),
    ("read marker", threads::MARK),
    ("delete", threads::DELETE),
    ("tombstone", threads::TOMBSTONE),
    ("tombstones", tables::STATEMENTS.tombstones),
    ("take jobs", tables::STATEMENTS.take_jobs),
    ("end a job", tables::STATEMENTS.end_job),
    ("delay a job", tables::STATEMENTS.delay_job),
    ("levels of jobs", tables::STATEMENTS.job_levels),
    ("idle since", seal::IDLE_SINCE),
    ("purge of the log", threads::PURGE_LOG),
    ("purge of annotations", threads::PURGE_ANNOTATIONS),
    ("put annotation", tables::STATEMENTS.put_annotation),
    ("annotations", tables::STATEMENTS.annotations),
    ("claim of a tool call", tables::STATEMENTS.claim_tool_call),
    ("claim that prevents another", tables::STATEMENTS.tool_claim),
    ("pump", feed::PUMP),
    ("feed", feed::PAGE),
    ("feed heads", feed::FEED_HEADS),
    ("dirty feeds", feed::DIRTY_FEEDS),
    ("was deleted", feed::WAS_DELETED),
    ("swap", seal::SWAP),
    ("newest snapshot", snapshots::NEWEST),
    ("unprojected", tables::STATEMENTS.unprojected),
    ("change of a project", identity::CHANGE_PROJECT),
    ("key", identity::KEY),
    ("keys", identity::KEYS),
    ("key by its id", identity::KEY_NAMED),
    ("use of a key", credentials::NOTE_USE),
    ("cutoff", credentials::PUT_CUTOFF),
    ("cutoffs", credentials::CUTOFFS),
    ("audit forward", credentials::AUDIT_AFTER),
    ("origin of an agent", credentials::AGENT_ORIGIN),
    ("changed origin of an agent", credentials::PUT_AGENT_ORIGIN),
    ("revocation", identity::REVOKE),
    ("ticket made", tables::STATEMENTS.put_ticket),
    ("tickets swept", tables::STATEMENTS.sweep_tickets),
    ("ticket taken", identity::TAKE_TICKET),
    ("audit", identity::AUDIT),
    ("idle", tables::STATEMENTS.idle),
    ("trash", tables::STATEMENTS.trash),
    ("page of the trash", tables::STATEMENTS.trash_page),
    ("restore", tables::STATEMENTS.restore),
    ("discard", tables::STATEMENTS.discard),
    ("trash of a user", tables::STATEMENTS.trash_of),
    ("users of an id in the trash", tables::STATEMENTS.trashed_users),
    ("footprint", tables::STATEMENTS.footprint),
    ("footprint, rest", tables::STATEMENTS.footprint_rest),
    ("forget some", tables::STATEMENTS.forget_some),
    ("forget", tables::STATEMENTS.forget),
    ("sum of stored data", usage::USAGE),
    ("sums added", tables::STATEMENTS.add_usage),
    ("count of stored data", tables::STATEMENTS.count_usage),
    ("corrected sum", tables::STATEMENTS.correct_usage),
    ("corrected sum of a project", tables::STATEMENTS.correct_project),
    ("sums to count", tables::STATEMENTS.due_usage),
    ("beat", nodes::BEAT),
    ("writes of key-value entries", kv::PUT),
    ("key-value entries", tables::STATEMENTS.kv_entries),
    ("page of key-value entries", tables::STATEMENTS.kv_page),
    ("namespaces", tables::STATEMENTS.kv_namespaces),
    ("key-value entries of all owners", tables::STATEMENTS.all_kv),
    ("expired key-value entries", tables::STATEMENTS.sweep_kv),
    ("key-value entries of an erased user", tables::STATEMENTS.forget_kv),
    ("write of a plain stream", streams::WRITE),
    ("chunks of a plain stream", tables::STATEMENTS.stream_chunks),
    ("purge of key-value entries", threads::PURGE_KV),
    ("change of a list", items::CHANGE),
    ("list", tables::STATEMENTS.list_state),
    ("measure of items", tables::STATEMENTS.measure_items),
    ("items after", tables::STATEMENTS.items_after),
    ("items before", tables::STATEMENTS.items_before),
    ("items that are over", items::SWEEP),
    ("purge of items", threads::PURGE_ITEMS),
    ("blobs", checkpoints::PUT_BLOBS),
    ("checkpoint", checkpoints::PUT),
    ("writes beside a checkpoint", checkpoints::PUT_WRITES),
    ("deletion of checkpoints", checkpoints::DELETE),
    ("oldest loose blob", checkpoints::OLDEST_BLOB),
    ("loose blobs", checkpoints::SWEEP_BLOBS),
    ("checkpoints of a namespace", tables::STATEMENTS.checkpoints_in_ns),
    ("checkpoints of a thread", tables::STATEMENTS.checkpoints_in_thread),
    ("checkpoints of a project", tables::STATEMENTS.checkpoints_of_project),
    ("checkpoints of a user", tables::STATEMENTS.checkpoints_of_user),
    ("blobs of checkpoints", tables::STATEMENTS.checkpoint_blobs_of),
    ("writes beside checkpoints", tables::STATEMENTS.checkpoint_writes_of),
    ("checkpoints of a run", tables::STATEMENTS.checkpoints_of_run),
    ("purge of checkpoints", threads::PURGE_CHECKPOINTS),
];

impl PgStore {
    /// The plan of each hot statement in the database at `url`, as JSON, with its name: as the store's own sessions get it.
    pub async fn plans(url: &str) -> Result<Vec<(&'static str, String)>, OpenError> {
        let mut connection = Address::parse(url)?.connect().await?;
        let mut plans = Vec::with_capacity(HOT.len());
        for (name, text) in HOT {
            plans.push((name, plan(&mut connection, text).await?));
        }
        Address::close(connection).await;
        Ok(plans)
    }
}

async fn plan(connection: &mut PgConnection, text: &str) -> Result<String, sqlx::Error> {
    connection.execute(AssertSqlSafe(format!("DEALLOCATE ALL; PREPARE hot AS {text}"))).await?;
    let arguments = (1..).take_while(|number| text.contains(&format!("${number}"))).map(|_| "NULL");
    let arguments = arguments.collect::<Vec<_>>().join(", ");
    let arguments = if arguments.is_empty() { arguments } else { format!("({arguments})") };
    let explain = AssertSqlSafe(format!("EXPLAIN (FORMAT JSON) EXECUTE hot {arguments}"));
    sqlx::raw_sql(explain).fetch_one(connection).await?.try_get_unchecked(0)
}
