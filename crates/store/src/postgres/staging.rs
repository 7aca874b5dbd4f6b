//! Threads that are written in steps. A staged thread is a row of `threads` with `deleted` = 3 and without a head, so that no
//! reader sees it; meanwhile `sort_at` is the time of the last step.

use async_trait::async_trait;
use sqlx::query;
use threadline_core::{
    Author, Run, RunStatus, ThreadKey,
    limits::{PACK_FIRST_LOOK, STAGING_TIMEOUT},
};

use super::{
    PgStore,
    fetch::{Kind, Statement},
    rows::{self, Columns, text_of},
};
use crate::{
    Arrival, MovedThread, Published, StagedPart, Staging, StagingStore, StoreResult,
    sql::{corrupt, crc},
};

pub(super) const STAGE: &str = text_of(include_str!("../../queries/postgres/stage.sql"));
pub(super) const STAGE_MORE: &str = text_of(include_str!("../../queries/postgres/stage_more.sql"));
/// The last seq in the log of a staged thread; no row if the thread is not staged (any more).
pub(super) const STAGED: &str = "\
    SELECT coalesce((SELECT last_seq FROM log WHERE key = $1 ORDER BY first_seq DESC LIMIT 1), 0)
    FROM threads WHERE key = $1 AND deleted = 3";
pub(super) const PUBLISH: &str = text_of(include_str!("../../queries/postgres/publish.sql"));
pub(super) const UNSTAGE: &str = text_of(include_str!("../../queries/postgres/unstage.sql"));

/// The arguments of the fragment `part`, behind `$2`.
fn part_arguments(statement: Statement<'static>, part: StagedPart) -> Statement<'static> {
    let sealed = part.sealed().map(rows::to_i64);
    let runs = &part.runs;
    let numbers = |of: fn(&Run) -> i64| runs.iter().map(of).collect::<Vec<_>>();
    let maybe = |of: fn(&Run) -> Option<i64>| runs.iter().map(of).collect::<Vec<_>>();
    let texts = |of: fn(&Run) -> Option<&str>| {
        runs.iter().map(|run| of(run).map(|text| rows::text(text.to_owned()))).collect::<Vec<_>>()
    };
    // While a run is active, its head has the newer state; the record says that it runs.
    let status = |run: &Run| if run.status.is_active() { RunStatus::Running } else { run.status };
    let statement = statement
        .bind(numbers(|run| run.fence.0))
        .bind(runs.iter().map(|run| run.id.to_string()).collect::<Vec<_>>())
        .bind(texts(|run| run.agent.as_ref().map(|agent| agent.as_str())))
        .bind(runs.iter().map(|run| status(run).to_i64()).collect::<Vec<_>>())
        .bind(texts(|run| run.error_code.as_deref()))
        .bind(texts(|run| run.error_message.as_deref()))
        .bind(texts(|run| run.usage.as_deref()))
        .bind(numbers(|run| rows::to_i64(run.first_seq)))
        .bind(numbers(|run| rows::to_i64(run.producer_seq)))
        .bind(numbers(|run| run.started_at.0))
        .bind(maybe(|run| run.ended_at.map(|at| at.0)))
        .bind(maybe(|run| run.stop_requested_at.map(|at| at.0)))
        .bind(runs.iter().map(|run| run.driven.then_some(true)).collect::<Vec<_>>())
        .bind(texts(|run| run.author.as_ref().map(Author::as_str)))
        .bind(texts(|run| run.asked_by.as_ref().map(Author::as_str)))
        .bind(numbers(|run| rows::to_i64(run.attempt)));
    let log = &part.rows;
    statement
        .bind(log.iter().map(|staged| rows::to_i64(staged.row.first_seq)).collect::<Vec<_>>())
        .bind(log.iter().map(|staged| rows::to_i64(staged.row.last_seq)).collect::<Vec<_>>())
        .bind(log.iter().map(|staged| staged.fence.map(|fence| fence.0)).collect::<Vec<_>>())
        .bind(log.iter().map(|staged| staged.row.at.0).collect::<Vec<_>>())
        .bind(log.iter().map(|staged| rows::limit(staged.raw)).collect::<Vec<_>>())
        .bind(log.iter().map(|staged| staged.row.body.to_vec()).collect::<Vec<_>>())
        .bind(log.iter().map(|staged| crc(&staged.row.body)).collect::<Vec<_>>())
        .bind(sealed)
}

#[async_trait]
impl StagingStore for PgStore {
    async fn stage(&self, moved: &MovedThread, part: StagedPart) -> StoreResult<Staging> {
        let thread = &moved.thread;
        if let Some(taken) = self.taken(&thread.project, &thread.user, &thread.id, thread.claimed).await? {
            return Ok(Staging::Taken(Box::new(taken)));
        }
        let forked = thread.branch.forked_from.as_ref();
        let stage = part_arguments(query(STAGE).bind(self.now()).bind(None::<i64>), part)
            .bind(thread.project.to_string())
            .bind(thread.id.to_string())
            .bind(thread.user.to_string())
            .bind(thread.agent.as_ref().map(ToString::to_string))
            .bind(thread.name.clone().map(rows::text))
            .bind(thread.name_source.map(|source| source as i64))
            .bind(thread.archived)
            .bind(thread.metadata.clone())
            .bind(thread.created_at.0)
            .bind(thread.updated_at.0)
            .bind(thread.last_run_at.map(|at| at.0))
            .bind(thread.version)
            .bind(thread.created_with.clone())
            .bind(rows::to_i64(thread.read_seq))
            .bind(rows::millis(STAGING_TIMEOUT))
            .bind(thread.claimed)
            .bind(thread.branch.family.map(|family| family.0))
            .bind(thread.branch.listed)
            .bind(forked.map(|from| from.thread.to_string()))
            .bind(forked.map(|from| from.epoch.to_i64()))
            .bind(forked.map(|from| rows::to_i64(from.seq)))
            .bind(moved.request.clone());
        let rows = self.write(stage).await?;
        let row = rows.first().ok_or_else(|| corrupt("a staged thread without a key"))?;
        Ok(Staging::Staged(ThreadKey(Columns::new(row).int()?)))
    }

    async fn stage_more(&self, key: ThreadKey, part: StagedPart) -> StoreResult<bool> {
        let more = part_arguments(query(STAGE_MORE).bind(self.now()).bind(key.0), part);
        Ok(!self.write(more).await?.is_empty())
    }

    async fn publish(&self, key: ThreadKey, moved: &MovedThread, arrival: Arrival) -> StoreResult<Published> {
        let thread = &moved.thread;
        if self.taken(&thread.project, &thread.user, &thread.id, thread.claimed).await?.is_some() {
            return Ok(Published::Taken);
        }
        let staged = self.read_rows(query(STAGED).bind(key.0)).await?;
        let Some(row) = staged.first() else { return Ok(Published::Gone) };
        if Columns::new(row).count()? != thread.tail {
            return Err(corrupt(format_args!("the log of thread {} was not staged whole", thread.id)));
        }
        let active = thread.active_run.as_ref();
        let parent = match arrival {
            Arrival::Import => None,
            Arrival::Fork { parent, epoch } => Some((parent, epoch)),
        };
        let publish = query(PUBLISH)
            .bind(self.now())
            .bind(key.0)
            .bind(thread.epoch.to_i64())
            .bind(rows::to_i64(thread.tail))
            .bind(moved.fence.0)
            .bind(active.is_some())
            .bind(active.map(|run| run.id.to_string()))
            .bind(active.map_or(0, |run| rows::to_i64(run.producer_seq)))
            .bind(active.and_then(|run| run.lease_until).map(|at| at.0))
            .bind(active.and_then(|run| run.stop_requested_at).map(|at| at.0))
            .bind(active.is_some_and(|run| run.status == RunStatus::Finishing))
            .bind(active.and_then(|run| run.agent.as_ref()).map(ToString::to_string))
            .bind(rows::millis(PACK_FIRST_LOOK))
            .bind(moved.interrupts.as_deref())
            .bind(parent.map(|(key, _)| key.0))
            .bind(parent.map(|(_, epoch)| epoch.to_i64()));
        match self.write_once(publish).await {
            Ok(rows) if rows.is_empty() => Ok(Published::Gone),
            Ok(_) => Ok(Published::Done),
            // A thread of this id was created a moment ago.
            Err(failure) if failure.kind == Kind::Duplicate => Ok(Published::Taken),
            Err(failure) => Err(failure.into()),
        }
    }

    async fn unstage(&self, key: ThreadKey) -> StoreResult<()> {
        self.write(query(UNSTAGE).bind(key.0)).await.map(drop)
    }
}
