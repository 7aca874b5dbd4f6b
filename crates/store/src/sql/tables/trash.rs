//! The trash of both databases.

use std::time::Duration;

use async_trait::async_trait;
use threadline_core::{
    AuditEntry, ProjectId, ThreadId, ThreadKey, Timestamp, TrashPage, TrashPosition, TrashedThread, UserId,
};

use super::{Tables, Value};
use crate::{
    Named, Restoration, StoreError, StoreResult, ThreadStore, TrashStore,
    credentials::log_entry,
    sql::{columns::Columns, corrupt, limit, millis, pages},
};

/// Looks at an id whose restoration another caller overtakes.
const LOOKS: usize = 2;

#[async_trait]
impl<S: Tables + ThreadStore> TrashStore for S {
    async fn trash(
        &self,
        project: &ProjectId,
        keys: &[ThreadKey],
        before: Timestamp,
        grace: Duration,
    ) -> StoreResult<Vec<ThreadKey>> {
        let keys = serde_json::Value::from_iter(keys.iter().map(|key| key.0)).to_string();
        let values =
            vec![self.time().into(), keys.into(), project.as_str().into(), before.0.into(), millis(grace).into()];
        let rows = self.changed(S::STATEMENTS.trash, values).await?;
        let mut keys = pages::each(&rows, |columns| columns.int().map(ThreadKey))?;
        keys.sort();
        Ok(keys)
    }

    async fn trashed(&self, project: &ProjectId, after: Option<&TrashPosition>, most: usize) -> StoreResult<TrashPage> {
        let position = after.map(|after| (after.at.0, after.id.as_str(), after.user.as_str()));
        let (at, id, user) = position.unwrap_or((i64::MAX, "", ""));
        let most_rows = limit(most).saturating_add(1);
        let values = vec![project.as_str().into(), at.into(), id.into(), user.into(), most_rows.into()];
        let rows = self.found(S::STATEMENTS.trash_page, values).await?;
        let threads = pages::each(&rows, |columns| {
            let (at, purge_at) = (columns.time()?, columns.time()?);
            let mut thread = columns.thread()?.ok_or_else(|| corrupt("a listed thread without columns"))?;
            thread.key = ThreadKey(-thread.key.0);
            Ok(TrashedThread { thread, at, purge_at })
        })?;
        Ok(TrashPage::of(threads, most))
    }

    async fn restore(
        &self,
        project: &ProjectId,
        user: Option<&UserId>,
        id: &ThreadId,
        entry: &AuditEntry,
    ) -> StoreResult<Restoration> {
        let user = match user {
            Some(user) => user.clone(),
            None => {
                let rows =
                    self.found(S::STATEMENTS.trashed_users, vec![project.as_str().into(), id.as_str().into()]).await?;
                let mut users = pages::each(&rows, |columns| columns.id(UserId::new))?;
                match (users.pop(), users.is_empty()) {
                    (Some(user), true) => user,
                    (Some(_), false) => return Ok(Restoration::Ambiguous),
                    // An earlier call may have restored the thread.
                    (None, _) => match self.thread_named(project, id).await? {
                        Named::Absent => return Ok(Restoration::Absent),
                        Named::Ambiguous => return Ok(Restoration::Ambiguous),
                        Named::Thread(thread) => thread.user,
                    },
                }
            }
        };
        for _ in 0..LOOKS {
            let mut values: Vec<Value> =
                vec![self.time().into(), project.as_str().into(), id.as_str().into(), user.as_str().into()];
            // The project and the time of the entry are those of the restoration.
            values.extend(Self::entry(entry).split_off(2));
            let rows = self.changed(S::STATEMENTS.restore, values).await?;
            let state = rows.last().map_or(Ok(0), |row| Columns::new(row).int())?;
            match (state, self.thread_of(project, &user, id).await?) {
                (0, _) => return Ok(Restoration::Absent),
                (1, Some(thread)) => {
                    log_entry(entry);
                    return Ok(Restoration::Restored(Box::new(thread)));
                }
                // Another caller may have restored the thread meanwhile, or deleted what has its id.
                _ => {}
            }
        }
        let claimed = self.thread_named(project, id).await?.claimed();
        match self.thread_of(project, &user, id).await?.or(claimed) {
            Some(_) => Ok(Restoration::Taken),
            None => Err(StoreError::Unavailable("the thread is restored and deleted all the time".to_owned())),
        }
    }

    async fn trash_of(&self, project: &ProjectId, user: &UserId, most: usize) -> StoreResult<Vec<ThreadKey>> {
        let values = vec![project.as_str().into(), user.as_str().into(), limit(most).into()];
        let rows = self.found(S::STATEMENTS.trash_of, values).await?;
        pages::each(&rows, |columns| columns.int().map(ThreadKey))
    }

    async fn discard(&self, key: ThreadKey, early: bool) -> StoreResult<bool> {
        let values = vec![self.time().into(), key.0.into(), i64::from(early).into()];
        Ok(!self.changed(S::STATEMENTS.discard, values).await?.is_empty())
    }
}
