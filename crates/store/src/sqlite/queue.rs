//! Queues of threads. Each change reads the head and writes inside one transaction.

use async_trait::async_trait;
use serde_json::json;
use sqlx::{SqliteConnection, query};
use threadline_core::{
    AgentId, Author, Hold, LogSlice, ProjectId, QueueState, RunId, ThreadKey, Timestamp, UserId, limits::DRIVEN_LEASE,
};

use super::{
    SqliteStore,
    begin::begin,
    corrupt,
    fetch::{self, Work},
    rows::{self, Columns, text_of},
    runs::{ACTIVE, Change, look, matches, may_end},
};
use crate::{
    Advance, Advanced, ChangeQueue, Committed, Due, Head, Queue, QueueStore, StoreResult,
    new_run::NewRun,
    sql::{append::End, pages, queue},
};

const QUEUE: &str = text_of(include_str!("../../queries/sqlite/queue.sql"));
const CHANGE: &str = text_of(include_str!("../../queries/sqlite/change_queue.sql"));
const LEAVE: &str = text_of(include_str!("../../queries/sqlite/leave_queue.sql"));
const MOVING: &str = text_of(include_str!("../../queries/sqlite/moving_queues.sql"));
const TAKEN: &str = "\
    SELECT 1 WHERE EXISTS (SELECT 1 FROM runs WHERE key = ?1 AND id = ?2)
      OR EXISTS (SELECT 1 FROM turns WHERE key = ?1 AND run = ?2)";
const NEXT: &str = "SELECT agent, asked_by, input FROM turns WHERE key = ?1 AND run = ?2 AND place IS NOT NULL";
/// The turn of a run that began from the queue. What a start writes besides is the same for every run.
const BEGUN: &str = "\
    UPDATE turns SET driven = 1, driver_fence = ?1, attempt = 0, attempt_seq = ?2, input = ?3 WHERE key = ?4 AND run = ?5";

fn list(runs: &[RunId]) -> String {
    json!(runs.iter().map(|run| run.as_str()).collect::<Vec<_>>()).to_string()
}

async fn change(connection: &mut SqliteConnection, change: ChangeQueue) -> Work<Option<Head>> {
    let ChangeQueue { key, seen, order, new, edited, gone, held } = change;
    let Some((mut head, ..)) = look(connection, query(ACTIVE).bind(key.0)).await? else { return Ok(None) };
    if head.queue.version != seen.queue.version {
        return Ok(None);
    }
    if let Some(new) = &new {
        let taken = query(TAKEN).bind(key.0).bind(new.run.as_str());
        if head.fence != seen.fence || fetch::row(connection, taken).await?.is_some() {
            return Ok(None);
        }
    }
    let queued = order.len() as u64;
    head.queue = QueueState { version: head.queue.version + 1, queued, held: Hold::over(held, queued) };
    let (edited, new_input) = edited.unzip();
    let statement = query(CHANGE)
        .bind(key.0)
        .bind(rows::to_i64(head.queue.version))
        .bind(rows::to_i64(queued))
        .bind(head.queue.held.map(Hold::to_i64))
        .bind(list(&gone))
        .bind(list(&order))
        .bind(edited.map(|run| run.to_string()))
        .bind(new.as_ref().and_then(|new| new.input.clone()).or(new_input))
        .bind(new.as_ref().map(|new| new.run.to_string()))
        .bind(new.as_ref().map(|new| new.agent.to_string()))
        .bind(new.as_ref().and_then(|new| new.asked_by.as_ref()).map(|author| author.to_string()))
        .bind(new.as_ref().and_then(|new| new.key.as_ref()).map(|key| key.to_string()))
        .bind(new.as_ref().map(|new| new.at.0));
    fetch::run(connection, statement).await?;
    Ok(Some(head))
}

async fn advance(connection: &mut SqliteConnection, advance: Advance, now: Timestamp) -> Work<Option<Advanced>> {
    let key = advance.key;
    let Some((mut head, run, newest)) = look(connection, query(ACTIVE).bind(key.0)).await? else { return Ok(None) };
    if head.queue.version != advance.seen.version {
        return Ok(None);
    }
    let next = match &advance.next {
        Some(next) => match fetch::row(connection, query(NEXT).bind(key.0).bind(next.as_str())).await? {
            Some(row) => Some((next.clone(), row)),
            None => return Ok(None),
        },
        None => None,
    };
    let after = advance.after();
    let at = now.in_log_after(newest);
    let (mut slice, mut ended) = (LogSlice::default(), None);
    match (&advance.end, run) {
        (None, None) => {}
        (Some((closing, when)), Some(run)) => {
            if !matches(&head, closing) || !head.active.as_ref().is_some_and(|active| may_end(active, *when, now)) {
                return Ok(None);
            }
            let mut change = Change { connection: &mut *connection, now, at, head, run, slice };
            change.end(closing.events.as_ref(), End::of_events(closing)).await?;
            (head, slice) = (change.head, change.slice);
            ended = Some(change.run);
        }
        _ => return Ok(None),
    }
    let mut gone = advance.dropped.clone();
    gone.extend(advance.next.clone());
    let leave = query(LEAVE)
        .bind(key.0)
        .bind(rows::to_i64(after.version))
        .bind(rows::to_i64(after.queued))
        .bind(after.held.map(Hold::to_i64))
        .bind(list(&gone));
    fetch::run(connection, leave).await?;
    head.queue = after;
    let mut begun = None;
    if let Some((id, row)) = next {
        let mut columns = Columns::new(&row);
        let agent = columns.id(AgentId::new)?;
        let asked_by = columns.maybe_text()?.as_deref().map(Author::stored);
        let author = Some(Author::agent(&agent));
        let (agent, lease, attempt_id) = (Some(agent), DRIVEN_LEASE, None);
        let new = NewRun { id, agent, driven: true, attempt_id, events: 0, author, asked_by, lease };
        let run = begin(connection, &mut head, new, now).await?;
        let turn = query(BEGUN)
            .bind(head.driver.0)
            .bind(rows::to_i64(head.tail + 1))
            .bind(columns.maybe_text()?)
            .bind(key.0)
            .bind(run.id.as_str());
        fetch::run(connection, turn).await?;
        begun = Some(run);
    }
    let run = ended.or_else(|| begun.clone()).ok_or_else(|| corrupt("nothing ends and nothing begins"))?;
    Ok(Some(Advanced { committed: Committed { run, head, slice }, begun }))
}

#[async_trait]
impl QueueStore for SqliteStore {
    async fn queue(&self, key: ThreadKey) -> StoreResult<Option<Queue>> {
        queue::queue(&self.read_rows(query(QUEUE).bind(key.0)).await?, &self.inner.secrets)
    }

    async fn change_queue(&self, mut wanted: ChangeQueue) -> StoreResult<Option<Head>> {
        queue::seal(&self.inner.secrets, &mut wanted)?;
        self.transact(move |connection| Box::pin(change(connection, wanted))).await
    }

    async fn advance(&self, wanted: Advance) -> StoreResult<Option<Advanced>> {
        let clock = self.inner.clock.clone();
        self.transact(move |connection| Box::pin(async move { advance(connection, wanted, clock.now()).await })).await
    }

    async fn moving_queues(&self, after: Option<ThreadKey>, limit: usize) -> StoreResult<Vec<Due>> {
        let statement = query(MOVING).bind(after.map_or(0, |after| after.0)).bind(rows::limit(limit));
        Ok(pages::claimed(&self.read_rows(statement).await?, limit)?.due)
    }

    async fn queued_turns(&self, project: &ProjectId, user: &UserId, bound: u64) -> StoreResult<u64> {
        let statement =
            query(queue::COUNT_OF_USER).bind(project.as_str()).bind(user.as_str()).bind(rows::to_i64(bound));
        queue::count(&self.read_rows(statement).await?)
    }
}
