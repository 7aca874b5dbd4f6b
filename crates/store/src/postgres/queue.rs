//! Queues of threads: one statement for each change.

use async_trait::async_trait;
use sqlx::query;
use threadline_core::{
    Author, Epoch, Hold, ProjectId, RunId, ThreadKey, UserId,
    limits::{DRIVEN_LEASE, PACK_FIRST_LOOK, STOP_GRACE},
};

use super::{
    PgStore,
    append::Pieces,
    fetch::Kind,
    rows::{self, Columns, text_of},
    start::{count, slice},
};
use crate::{
    Advance, Advanced, ChangeQueue, CloseWhen, Committed, Due, Head, Queue, QueueStore, StoreResult,
    sql::{append::End, corrupt, pages, queue},
};

pub(super) const QUEUE: &str = text_of(include_str!("../../queries/postgres/queue.sql"));
pub(super) const CHANGE: &str = text_of(include_str!("../../queries/postgres/change_queue.sql"));
pub(super) const ADVANCE: &str = text_of(include_str!("../../queries/postgres/advance_queue.sql"));
pub(super) const MOVING: &str = text_of(include_str!("../../queries/postgres/moving_queues.sql"));

fn texts(runs: &[RunId]) -> Vec<&str> {
    runs.iter().map(|run| run.as_str()).collect()
}

#[async_trait]
impl QueueStore for PgStore {
    async fn queue(&self, key: ThreadKey) -> StoreResult<Option<Queue>> {
        queue::queue(&self.read_rows(query(QUEUE).bind(key.0)).await?, &self.inner.secrets)
    }

    async fn change_queue(&self, mut change: ChangeQueue) -> StoreResult<Option<Head>> {
        queue::seal(&self.inner.secrets, &mut change)?;
        let ChangeQueue { key, seen, order, new, edited, gone, held } = &change;
        let place = |run: &RunId| order.iter().position(|other| other == run).map(|place| place as i64 + 1);
        let staying: Vec<&RunId> = order.iter().filter(|run| new.as_ref().is_none_or(|new| new.run != **run)).collect();
        let input = new.as_ref().map(|new| new.input.as_deref());
        let statement = query(CHANGE)
            .bind(self.now())
            .bind(key.0)
            .bind(rows::to_i64(seen.queue.version))
            .bind(new.as_ref().map(|_| seen.fence.0))
            .bind(rows::limit(order.len()))
            .bind(Hold::over(*held, order.len() as u64).map(Hold::to_i64))
            .bind(staying.iter().map(|run| run.as_str()).collect::<Vec<_>>())
            .bind(staying.iter().filter_map(|run| place(run)).collect::<Vec<_>>())
            .bind(texts(gone))
            .bind(new.as_ref().map(|new| new.run.as_str()))
            .bind(new.as_ref().and_then(|new| place(&new.run)))
            .bind(new.as_ref().map(|new| new.agent.as_str()))
            .bind(new.as_ref().and_then(|new| new.asked_by.as_ref()).map(Author::as_str))
            .bind(new.as_ref().and_then(|new| new.key.as_ref()).map(|key| key.as_str()))
            .bind(new.as_ref().map(|new| new.at.0))
            .bind(input.unwrap_or_else(|| edited.as_ref().map(|(_, input)| input.as_str())))
            .bind(edited.as_ref().map(|(run, _)| run.as_str()));
        let rows = match self.write_once(statement).await {
            // A run of this id is active.
            Err(failure) if failure.kind == Kind::Duplicate => return Ok(None),
            done => done?,
        };
        let Some(row) = rows.first() else { return Ok(None) };
        Ok(Columns::new(row).head()?.map(|(head, _)| head))
    }

    async fn advance(&self, advance: Advance) -> StoreResult<Option<Advanced>> {
        let closing = advance.end.as_ref().map(|(closing, _)| closing);
        let if_due = advance.end.as_ref().is_some_and(|(_, when)| *when == CloseWhen::IfDue);
        let (end, events) = (closing.map(End::of_events), closing.and_then(|closing| closing.events.as_ref()));
        let mut pieces = Pieces::default();
        if let Some(events) = events {
            pieces.add(advance.key, events, 0);
        }
        let after = advance.after();
        let texts_of = |of: fn(&End) -> &Option<String>| end.as_ref().and_then(|end| of(end).clone()).map(rows::text);
        let statement = query(ADVANCE)
            .bind(self.now())
            .bind(advance.key.0)
            .bind(rows::to_i64(advance.seen.version))
            .bind(closing.map(|closing| closing.fence.run.0))
            .bind(closing.map(|closing| closing.fence.driver.0))
            .bind(closing.map(|closing| rows::to_i64(closing.tail)))
            .bind(if_due)
            .bind(rows::millis(STOP_GRACE))
            .bind(count(events))
            .bind(end.as_ref().map(|end| end.status.to_i64()))
            .bind(texts_of(|end| &end.code))
            .bind(texts_of(|end| &end.message))
            .bind(texts_of(|end| &end.usage))
            .bind(pieces.back)
            .bind(pieces.counts)
            .bind(pieces.bodies)
            .bind(pieces.crcs)
            .bind(closing.and_then(|closing| closing.epoch).map(Epoch::to_i64))
            .bind(self.bound())
            .bind(events.and_then(|events| events.answers()))
            .bind(texts_of(|end| &end.interrupts))
            .bind(texts(&advance.dropped))
            .bind(advance.next.as_ref().map(|next| next.as_str()))
            .bind(rows::millis(DRIVEN_LEASE))
            .bind(rows::to_i64(after.version))
            .bind(rows::to_i64(after.queued))
            .bind(after.held.map(Hold::to_i64))
            .bind(rows::millis(PACK_FIRST_LOOK));
        let rows = self.write(statement).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let mut columns = Columns::new(row);
        let at = columns.time()?;
        let (head, _) = columns.head()?.ok_or_else(|| corrupt("a commit without a head"))?;
        let (ended, begun) = (columns.run(&head)?, columns.run(&head)?);
        let slice = slice(&head, at, [(None, None), (events, ended.as_ref().map(|run| &run.id))])?;
        let run = ended.or_else(|| begun.clone()).ok_or_else(|| corrupt("a commit without a run"))?;
        Ok(Some(Advanced { committed: Committed { run, head, slice }, begun }))
    }

    async fn moving_queues(&self, after: Option<ThreadKey>, limit: usize) -> StoreResult<Vec<Due>> {
        let statement = query(MOVING).bind(after.map_or(0, |after| after.0)).bind(rows::limit(limit));
        Ok(pages::claimed(&self.read_rows(statement).await?, limit)?.due)
    }

    async fn queued_turns(&self, project: &ProjectId, user: &UserId, bound: u64) -> StoreResult<u64> {
        let statement = query(queue::COUNT).bind(project.as_str()).bind(user.as_str()).bind(rows::to_i64(bound));
        queue::count(&self.read_rows(statement).await?)
    }
}
