//! Group commit: the batches of many threads, and the ends of runs, in a constant number of statements.

use std::collections::HashMap;

use async_trait::async_trait;
use serde_json::{Value, json};
use sqlx::{SqliteConnection, query};
use threadline_core::{
    Epoch, Fence, NewEvents, RunId, Seq, ThreadKey, Timestamp,
    limits::{ROW_BYTES, STOP_GRACE},
};

use super::{
    SqliteStore, corrupt,
    fetch::{self, Work},
    rows::{Columns, text_of},
};
use crate::{
    Append, Appended, Head, StoreResult,
    sql::{
        append::{End, GroupCommit, GroupFailure, appended},
        crc,
    },
};

pub(super) const ONE: &str = text_of(include_str!("../../queries/sqlite/append_one.sql"));

/// The heads of a group.
pub const GROUP: &str = text_of(include_str!("../../queries/sqlite/append_group.sql"));

/// Inserts the log rows of a group after its heads were moved, and commits.
pub const WRITE_COMMIT: &str = text_of(include_str!("../../queries/sqlite/write_commit.sql"));
pub(super) const WRITE_END_COMMIT: &str = text_of(include_str!("../../queries/sqlite/write_end_commit.sql"));
pub(super) const WRITE_AND_END: &str = text_of(include_str!("../../queries/sqlite/write_and_end.sql"));
pub(super) const ANSWERING: &str = text_of(include_str!("../../queries/sqlite/answering.sql"));

/// Rows that a commit writes after the head was moved: events, or the end of the run, or both.
pub(super) struct Entry<'e> {
    pub(super) key: ThreadKey,
    pub(super) fence: Fence,
    /// Tail of the thread after the events.
    pub(super) tail: Seq,
    /// producer_seq of the run after the events.
    pub(super) producer_seq: u64,
    pub(super) stop_requested_at: Option<Timestamp>,
    /// Time of the events in the log.
    pub(super) at: Timestamp,
    pub(super) events: Option<&'e NewEvents>,
    pub(super) end: Option<End>,
}

/// Packs a list of entries into the arguments `?1` and `?2`.
pub(super) fn pack(entries: &[Entry<'_>]) -> (String, Vec<u8>) {
    let size = entries.iter().filter_map(|entry| entry.events).map(|events| events.body().len()).sum();
    let mut bodies = Vec::with_capacity(size);
    let mut list = Vec::with_capacity(entries.len());
    for entry in entries {
        let mut row = |first_seq: u64, last_seq: u64, body: Option<&[u8]>| {
            let offset = bodies.len() + 1;
            bodies.extend_from_slice(body.unwrap_or_default());
            let length = body.map_or(Value::Null, |body| json!(body.len()));
            let crc = body.map_or(Value::Null, |body| json!(crc(body)));
            let (key, fence) = (json!(entry.key.0), json!(entry.fence.0));
            vec![key, fence, json!(first_seq), json!(last_seq), json!(offset), length, crc, json!(entry.at.0)]
        };
        let count = entry.events.map_or(0, |events| events.count() as u64);
        let mut first_seq = entry.tail + 1 - count;
        for (count, body) in entry.events.map(|events| events.pieces(ROW_BYTES)).unwrap_or_default() {
            list.push(Value::Array(row(first_seq, first_seq + count - 1, Some(&body))));
            first_seq += count;
        }
        if let Some(end) = &entry.end {
            // The end of a run is an item of its own, without events.
            let mut item = row(first_seq, entry.tail, None);
            item.extend([
                json!(end.status.to_i64()),
                json!(end.code),
                json!(end.message),
                json!(entry.producer_seq),
                json!(entry.stop_requested_at.map(|at| at.0)),
                json!(end.usage),
                json!(end.interrupts),
                json!(entry.events.and_then(NewEvents::answers)),
            ]);
            list.push(Value::Array(item));
        }
    }
    (Value::Array(list).to_string(), bodies)
}

/// Writes one entry inside a transaction.
pub(super) async fn write(connection: &mut SqliteConnection, entry: Entry<'_>, now: Timestamp) -> Work<()> {
    let (list, bodies) = pack(&[entry]);
    fetch::run(connection, query(WRITE_AND_END).bind(list).bind(bodies).bind(now.0)).await
}

/// Marks the open interrupts that a run answers by its events. A run that ends with them has settled them instead.
pub(super) async fn answering(
    connection: &mut SqliteConnection,
    key: ThreadKey,
    events: &NewEvents,
    run: &RunId,
) -> Work<()> {
    match events.answers().filter(|_| events.terminal().is_none()) {
        Some(answers) => fetch::run(connection, query(ANSWERING).bind(key.0).bind(answers).bind(run.as_str())).await,
        None => Ok(()),
    }
}

/// Time limit of stop requests: a run whose stop was requested at or before it can append nothing more, and will be
/// closed for its producer.
fn overdue(now: Timestamp) -> i64 {
    now.minus(STOP_GRACE).0
}

/// True if the append changes nothing but the head and the log, and fits into a row.
fn is_narrow(events: &NewEvents) -> bool {
    events.terminal().is_none() && events.answers().is_none() && events.body().len() <= ROW_BYTES
}

async fn one(connection: &mut SqliteConnection, append: &Append, now: Timestamp) -> Work<Option<Appended>> {
    let count = append.events.count() as i64;
    let body = append.events.body();
    let statement = query(ONE)
        .bind(count)
        .bind(now.0)
        .bind(append.key.0)
        .bind(append.fence.run.0)
        .bind(append.producer_seq.map(super::rows::to_i64))
        .bind(overdue(now))
        .bind(body.len() as i64)
        .bind(body.to_vec())
        .bind(crc(body))
        .bind(append.epoch.map(Epoch::to_i64))
        .bind(append.fence.driver.0);
    let Some(row) = fetch::row(connection, statement).await? else { return Ok(None) };
    let mut columns = Columns::new(&row);
    match columns.head()? {
        Some((head, Some(run))) => Ok(Some(answer(append, head, run, columns.time()?)?)),
        _ => Err(corrupt("an append to a head without a run").into()),
    }
}

async fn group(connection: &mut SqliteConnection, batch: &[Append], now: Timestamp) -> Work<Vec<Option<Appended>>> {
    let wanted = batch.iter().map(|append| {
        let (producer_seq, epoch) = (append.producer_seq.map(super::rows::to_i64), append.epoch.map(Epoch::to_i64));
        let (ends, count) = (i64::from(append.events.terminal().is_some()), append.events.count());
        json!([append.key.0, append.fence.run.0, producer_seq, count, epoch, append.fence.driver.0, ends])
    });
    let wanted = Value::Array(wanted.collect()).to_string();
    let mut heads = HashMap::with_capacity(batch.len());
    for row in fetch::rows(connection, query(GROUP).bind(wanted).bind(now.0).bind(overdue(now))).await? {
        let mut columns = Columns::new(&row);
        if let Some((head, Some(run))) = columns.head()? {
            heads.insert(head.key, (head, run, columns.time()?));
        }
    }
    let mut answers = Vec::with_capacity(batch.len());
    for append in batch {
        let head = heads.remove(&append.key);
        answers.push(head.map(|(head, run, at)| answer(append, head, run, at)).transpose()?);
    }
    if answers.iter().all(Option::is_none) {
        fetch::run(connection, query("ROLLBACK")).await?;
        return Ok(answers);
    }
    let mut entries = Vec::with_capacity(batch.len());
    for (append, answer) in batch.iter().zip(&mut answers) {
        let Some(answer) = answer else { continue };
        answering(connection, append.key, &append.events, &answer.run).await?;
        let stop_requested_at = answer.head.active.as_ref().and_then(|active| active.stop_requested_at);
        let end = append.events.terminal().map(|terminal| End::by(terminal, stop_requested_at.is_some()));
        if end.is_some() {
            answer.head.active = None;
        }
        entries.push(Entry {
            key: append.key,
            fence: append.fence.run,
            tail: answer.head.tail,
            producer_seq: answer.producer_seq,
            stop_requested_at,
            at: answer.at,
            events: Some(&append.events),
            end,
        });
    }
    let ends = entries.iter().any(|entry| entry.end.is_some());
    let (list, bodies) = pack(&entries);
    let write = if ends {
        query(WRITE_END_COMMIT).bind(list).bind(bodies).bind(now.0)
    } else {
        query(WRITE_COMMIT).bind(list).bind(bodies)
    };
    fetch::run(connection, write).await?;
    Ok(answers)
}

#[async_trait]
impl GroupCommit for SqliteStore {
    async fn commit_group(&self, batch: Vec<Append>) -> Result<Vec<Option<Appended>>, GroupFailure> {
        let clock = self.inner.clock.clone();
        let done = self.write(move |connection| {
            Box::pin(async move {
                let now = clock.now();
                match batch.as_slice() {
                    [] => Ok(Vec::new()),
                    [only] if is_narrow(&only.events) => Ok(vec![one(connection, only, now).await?]),
                    many => group(connection, many, now).await,
                }
            })
        });
        done.await.map_err(|error| GroupFailure { error, divisible: true })
    }
}

/// Builds the answer for a head that was just moved, with its run still active.
fn answer(append: &Append, head: Head, run: RunId, at: Timestamp) -> StoreResult<Appended> {
    let producer_seq = head.active.as_ref().map_or(0, |active| active.producer_seq);
    appended(append, head, producer_seq, run, at)
}
