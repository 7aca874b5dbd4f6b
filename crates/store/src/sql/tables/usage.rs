//! Sums of what users and projects have stored. Of a project with all its users, `owner` is empty.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value as Json, json};
use threadline_core::{
    ProjectId, Usage, UsageOwner, UserId,
    limits::{USAGE_AGE, USAGE_FIRST_COUNT, USAGE_THREADS},
};

use super::{Tables, Value};
use crate::{
    StoreResult, UsageStore,
    sql::{
        columns::{Cells, Columns},
        limit, millis,
        pages::each,
    },
};

pub(crate) const USAGE: &str = "SELECT bytes, threads FROM usage WHERE project = $1 AND owner = $2";
/// Difference between what all users and the project itself have stored, and the sum of the project, as of one moment.
const SUMS: &str = "\
    SELECT CAST(coalesce(sum(CASE WHEN owner = '' THEN -bytes ELSE bytes END), 0)
        + (SELECT coalesce(sum(size), 0) FROM kv WHERE project = $1 AND owner = '')
        + (SELECT coalesce(sum(size), 0) FROM streams WHERE project = $1 AND owner = '') AS bigint),
      CAST(coalesce(sum(CASE WHEN owner = '' THEN -threads ELSE threads END), 0) AS bigint)
    FROM usage WHERE project = $1";
/// A sum of nothing says no more than no sum.
const DROP: &str = "\
    DELETE FROM usage WHERE project = $1 AND owner = $2 AND bytes = 0 AND threads = 0 RETURNING owner";

fn sums<R: Cells>(columns: &mut Columns<'_, R>) -> StoreResult<Usage> {
    Ok(Usage { bytes: columns.int()?, threads: columns.int()? })
}

fn owner<R: Cells>(columns: &mut Columns<'_, R>) -> StoreResult<UsageOwner> {
    let (project, user) = (columns.id(ProjectId::new)?, columns.text()?);
    let user = if user.is_empty() { None } else { Some(UserId::new(user).map_err(crate::sql::corrupt)?) };
    Ok(UsageOwner { project, user })
}

fn place(owner: &UsageOwner) -> Vec<Value> {
    let user = owner.user.as_ref().map_or("", |user| user.as_str());
    vec![owner.project.as_str().into(), user.into()]
}

/// The difference between what a user has stored and the sum.
async fn drift<S: Tables>(store: &S, owner: &UsageOwner) -> StoreResult<Usage> {
    // Read first: what is added during the count is then not taken back.
    let known = store.usage(owner).await?.unwrap_or_default();
    let (mut found, mut after) = (Usage::NONE, 0);
    loop {
        let mut values = place(owner);
        values.extend([after.into(), limit(USAGE_THREADS).into()]);
        let rows = store.found(S::STATEMENTS.count_usage, values).await?;
        let Some(row) = rows.first() else { break };
        let mut columns = Columns::new(row);
        let (threads, bytes, last) = (columns.int()?, columns.int()?, columns.int()?);
        found += Usage { bytes, threads };
        if threads < limit(USAGE_THREADS) {
            break;
        }
        after = last;
    }
    Ok(found - known)
}

#[async_trait]
impl<S: Tables> UsageStore for S {
    async fn usage(&self, owner: &UsageOwner) -> StoreResult<Option<Usage>> {
        let rows = self.found(USAGE, place(owner)).await?;
        rows.first().map(|row| sums(&mut Columns::new(row))).transpose()
    }

    async fn add_usage(&self, added: &[(ProjectId, UserId, Usage)]) -> StoreResult<Vec<(UsageOwner, Usage)>> {
        let added = added
            .iter()
            .map(|(project, user, usage)| json!([project.as_str(), user.as_str(), usage.bytes, usage.threads]));
        let added = Json::Array(added.collect()).to_string();
        let counted = millis(USAGE_AGE - USAGE_FIRST_COUNT);
        let values = vec![self.time().into(), added.into(), counted.into()];
        let rows = self.changed(S::STATEMENTS.add_usage, values).await?;
        each(&rows, |columns| Ok((owner(columns)?, sums(columns)?)))
    }

    async fn due_usage(&self, age: Duration, most: usize) -> StoreResult<Vec<UsageOwner>> {
        let values = vec![self.time().into(), millis(age).into(), limit(most).into()];
        each(&self.found(S::STATEMENTS.due_usage, values).await?, owner)
    }

    async fn count_usage(&self, owner: &UsageOwner) -> StoreResult<Usage> {
        let (text, drift) = match &owner.user {
            Some(_) => (S::STATEMENTS.correct_usage, drift(self, owner).await?),
            None => {
                let rows = self.found(SUMS, vec![owner.project.as_str().into()]).await?;
                let drift = rows.first().map(|row| sums(&mut Columns::new(row))).transpose()?;
                (S::STATEMENTS.correct_project, drift.unwrap_or_default())
            }
        };
        let mut values = vec![self.time().into(), owner.project.as_str().into()];
        values.extend(owner.user.iter().map(|user| Value::from(user.as_str())));
        values.extend([drift.bytes.into(), drift.threads.into()]);
        self.changed(text, values).await?;
        self.changed(DROP, place(owner)).await?;
        Ok(self.usage(owner).await?.unwrap_or_default())
    }
}
