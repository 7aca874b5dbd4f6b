//! Sums of what users and projects have stored.

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use threadline_core::{
    ProjectId, Thread, Timestamp, Usage, UsageOwner, UserId,
    limits::{USAGE_AGE, USAGE_FIRST_COUNT},
};

use super::{MemoryStore, Row, State, sums::Sum};
use crate::{StoreResult, UsageStore};

impl Row {
    /// Bytes of the events.
    fn bytes(&self) -> i64 {
        let size = |body: usize| i64::try_from(body).unwrap_or(i64::MAX);
        let bytes = self.log.iter().map(|row| match row.run {
            Some(_) => size(row.body.len()),
            // A segment that cannot be read counts nothing.
            None => row.clone().unpack().unwrap_or_default().iter().map(|batch| size(batch.body.len() + 1)).sum(),
        });
        bytes.sum()
    }

    pub(super) fn usage(&self) -> Usage {
        Usage { bytes: self.bytes() + self.data_bytes(), threads: 1 }
    }
}

impl State {
    /// Adds to the sums of a thread's user and project.
    pub(super) fn charge(&mut self, thread: &Thread, usage: Usage) {
        self.add(&thread.project, &thread.user, usage, Timestamp(0));
    }

    pub(super) fn add(
        &mut self,
        project: &ProjectId,
        user: &UserId,
        usage: Usage,
        checked_at: Timestamp,
    ) -> [UsageOwner; 2] {
        let owners = [UsageOwner::user(project, user), UsageOwner::project(project)];
        for owner in owners.clone() {
            self.usage.entry(owner).or_insert(Sum { usage: Usage::NONE, checked_at }).usage += usage;
        }
        owners
    }

    /// Rows of all threads of a user, also of those in the trash. Those that are being imported count once they are published.
    fn rows_of<'s>(&'s self, project: &'s ProjectId, user: &'s UserId) -> impl Iterator<Item = &'s Row> {
        let rows = self.threads.values().chain(self.trash.values());
        rows.filter(move |row| row.thread.project == *project && row.thread.user == *user)
    }

    /// Amount that a user, or the project itself, has stored beside the logs of threads.
    fn beside_logs(&self, project: &ProjectId, user: Option<&UserId>) -> Usage {
        Usage { bytes: self.kv_bytes(project, user) + self.stream_bytes(project, user), threads: 0 }
    }

    /// Removes the sum of a user, as when it had never been added.
    pub(super) fn forget_usage(&mut self, project: &ProjectId, user: &UserId) {
        if let Some(sum) = self.usage.remove(&UsageOwner::user(project, user))
            && let Some(whole) = self.usage.get_mut(&UsageOwner::project(project))
        {
            whole.usage += -sum.usage;
        }
    }
}

#[async_trait]
impl UsageStore for MemoryStore {
    async fn usage(&self, owner: &UsageOwner) -> StoreResult<Option<Usage>> {
        Ok(self.state().usage.get(owner).map(|sum| sum.usage))
    }

    async fn add_usage(&self, added: &[(ProjectId, UserId, Usage)]) -> StoreResult<Vec<(UsageOwner, Usage)>> {
        let counted = self.clock.now().minus(USAGE_AGE - USAGE_FIRST_COUNT);
        let state = &mut *self.state();
        let mut changed = BTreeMap::new();
        for (project, user, usage) in added {
            let known = state.usage.contains_key(&UsageOwner::user(project, user));
            let stores = || {
                state.rows_of(project, user).next().is_some()
                    || state.kv_count(project, user) > 0
                    || state.stream_count(project, user) > 0
            };
            if known || stores() {
                let owners = state.add(project, user, *usage, counted);
                changed.extend(owners.map(|owner| (owner.clone(), state.usage[&owner].usage)));
            }
        }
        Ok(changed.into_iter().collect())
    }

    async fn due_usage(&self, age: Duration, limit: usize) -> StoreResult<Vec<UsageOwner>> {
        let until = self.clock.now().minus(age);
        let state = self.state();
        let mut due: Vec<_> = state.usage.iter().filter(|(_, sum)| sum.checked_at <= until).collect();
        due.sort_by_key(|(_, sum)| sum.checked_at);
        Ok(due.into_iter().take(limit).map(|(owner, _)| owner.clone()).collect())
    }

    async fn count_usage(&self, owner: &UsageOwner) -> StoreResult<Usage> {
        let now = self.clock.now();
        let state = &mut *self.state();
        let known = state.usage.get(owner).map_or(Usage::NONE, |sum| sum.usage);
        let found = match &owner.user {
            Some(user) => {
                let kept = state.beside_logs(&owner.project, Some(user));
                let found = state.rows_of(&owner.project, user).fold(kept, |sum, row| sum + row.usage());
                state.add(&owner.project, user, found - known, now);
                found
            }
            None => {
                let users =
                    state.usage.iter().filter(|(other, _)| other.project == owner.project && other.user.is_some());
                let kept = state.beside_logs(&owner.project, None);
                users.fold(kept, |sum, (_, of_user)| sum + of_user.usage)
            }
        };
        if found == Usage::NONE {
            state.usage.remove(owner);
        } else {
            state.usage.insert(owner.clone(), Sum { usage: found, checked_at: now });
        }
        Ok(found)
    }
}
