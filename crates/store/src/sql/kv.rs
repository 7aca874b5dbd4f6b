//! Key-value entries of both databases. Writes differ: Postgres takes a batch in one statement, SQLite in one transaction.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value as Json, json};
use threadline_core::{
    ProjectId, ThreadId, UserId,
    kv::{KvEntry, KvKey, KvNamespace, KvOwner, KvPlace, Tag},
};

use super::{
    columns::{Cells, Columns},
    corrupt, limit as count,
    pages::each,
    tables::{Tables, Value},
};
use crate::{KvFound, KvRange, KvStore, KvWrite, KvWritten, MovedKv, OwnedPlace, StoreResult};

/// A database that writes entries.
#[async_trait]
pub(crate) trait KvTables: Tables {
    /// Carries out all writes in one commit, or none.
    async fn write_entries(&self, owner: &KvOwner, writes: &[KvWrite]) -> StoreResult<KvWritten>;
}

/// Owner as it is stored; the project itself has an empty one.
pub(crate) fn stored_owner(owner: &KvOwner) -> &str {
    owner.user.as_ref().map_or("", |user| user.as_str())
}

fn of<S: Tables>(store: &S, owner: &KvOwner, rest: impl IntoIterator<Item = Value>) -> Vec<Value> {
    let owner = [store.time().into(), owner.project.as_str().into(), stored_owner(owner).into()];
    owner.into_iter().chain(rest).collect()
}

fn owner<R: Cells>(columns: &mut Columns<'_, R>) -> StoreResult<KvOwner> {
    let (project, user) = (columns.id(ProjectId::new)?, columns.text()?);
    let user = if user.is_empty() { None } else { Some(UserId::new(user).map_err(corrupt)?) };
    Ok(KvOwner { project, user })
}

fn namespace(text: &str) -> StoreResult<KvNamespace> {
    KvNamespace::stored(text).ok_or_else(|| corrupt(format_args!("namespace {text:?}")))
}

/// An entry; `None` if its value was left out.
fn entry<R: Cells>(columns: &mut Columns<'_, R>) -> StoreResult<Option<KvEntry>> {
    let ns = namespace(&columns.text()?)?;
    let place = KvPlace { ns, key: KvKey::new(columns.text()?).map_err(corrupt)? };
    let tag = Tag::new(columns.text()?).map_err(corrupt)?;
    let (created_at, updated_at, expires_at) = (columns.time()?, columns.time()?, columns.maybe_time()?);
    let Some(value) = columns.maybe_bytes()? else { return Ok(None) };
    let value = String::from_utf8(value).map_err(corrupt)?;
    Ok(Some(KvEntry { place, value, tag, created_at, updated_at, expires_at }))
}

fn whole<R: Cells>(columns: &mut Columns<'_, R>) -> StoreResult<KvEntry> {
    entry(columns)?.ok_or_else(|| corrupt("an entry without a value"))
}

#[async_trait]
impl<S: KvTables> KvStore for S {
    async fn kv_entries(&self, owner: &KvOwner, places: &[KvPlace], bytes: usize) -> StoreResult<KvFound> {
        let list = Json::Array(places.iter().map(|place| json!([place.ns.as_str(), place.key.as_str()])).collect());
        let values = of(self, owner, [list.to_string().into(), count(bytes).into()]);
        let mut entries = vec![None; places.len()];
        for row in &self.found(S::STATEMENTS.kv_entries, values).await? {
            let mut columns = Columns::new(row);
            let number = usize::try_from(columns.count()?).unwrap_or(0);
            let Some(entry) = entry(&mut columns)? else { return Ok(None) };
            let place =
                entries.get_mut(number.wrapping_sub(1)).ok_or_else(|| corrupt("an entry that was not asked for"))?;
            *place = Some(entry);
        }
        Ok(Some(entries))
    }

    async fn kv_page(&self, range: KvRange<'_>, after: Option<&KvPlace>, bytes: usize) -> StoreResult<Vec<KvEntry>> {
        let KvRange { owner, prefix, limit } = range;
        // No key is empty, so an empty one comes before all others.
        let (ns, key) = after.map_or((prefix.as_str(), ""), |after| (after.ns.as_str(), after.key.as_str()));
        let rest = [ns.into(), key.into(), prefix.end().into(), count(limit).into(), count(bytes).into()];
        each(&self.found(S::STATEMENTS.kv_page, of(self, owner, rest)).await?, whole)
    }

    async fn kv_namespaces(&self, range: KvRange<'_>, after: Option<&KvNamespace>) -> StoreResult<Vec<KvNamespace>> {
        let KvRange { owner, prefix, limit } = range;
        if limit == 0 {
            return Ok(Vec::new());
        }
        let from = after.map_or_else(|| prefix.as_str().to_owned(), KvNamespace::next);
        let values = of(self, owner, [from.into(), prefix.end().into(), count(limit).into()]);
        each(&self.found(S::STATEMENTS.kv_namespaces, values).await?, |columns| namespace(&columns.text()?))
    }

    async fn write_kv(&self, owner: &KvOwner, writes: &[KvWrite]) -> StoreResult<KvWritten> {
        self.write_entries(owner, writes).await
    }

    async fn sweep_kv(&self, limit: usize) -> StoreResult<Vec<(KvOwner, i64)>> {
        let values = vec![self.time().into(), count(limit).into()];
        each(&self.changed(S::STATEMENTS.sweep_kv, values).await?, |columns| Ok((owner(columns)?, columns.int()?)))
    }

    async fn all_kv(&self, after: Option<&OwnedPlace>, limit: usize, bytes: usize) -> StoreResult<Vec<MovedKv>> {
        let place = after.map_or(["", "", "", ""], |OwnedPlace { owner, place }| {
            [owner.project.as_str(), stored_owner(owner), place.ns.as_str(), place.key.as_str()]
        });
        let mut values = vec![self.time().into()];
        values.extend(place.map(Value::from));
        values.extend([count(limit).into(), count(bytes).into()]);
        each(&self.found(S::STATEMENTS.all_kv, values).await?, |columns| {
            let (owner, entry) = (owner(columns)?, whole(columns)?);
            let thread = columns.maybe_id(UserId::new)?.zip(columns.maybe_id(ThreadId::new)?);
            let life = columns.maybe_int()?.map(|life| Duration::from_millis(life.unsigned_abs()));
            Ok(MovedKv { owner, entry, thread, life })
        })
    }
}
