//! Projects, API keys and the audit as they come from the database.

use threadline_core::{ApiKey, AuditEntry, Digest, KeyId, ProjectId, Scope, Scopes};

use super::{
    columns::{Cells, Columns},
    corrupt,
    pages::each,
};
use crate::{StoreResult, StoredProject};

/// Scopes by name. A name that only a newer release knows grants nothing here.
fn scopes(names: &str) -> Scopes {
    Scopes::of(&names.split_ascii_whitespace().filter_map(Scope::named).collect::<Vec<_>>())
}

/// Projects: id, version, settings and secrets.
pub(crate) fn projects<R: Cells>(rows: &[R]) -> StoreResult<Vec<StoredProject>> {
    each(rows, |columns| {
        Ok(StoredProject {
            id: columns.id(ProjectId::new)?,
            version: columns.int()?,
            settings: columns.text()?,
            secrets: columns.text()?,
        })
    })
}

fn key<R: Cells>(columns: &mut Columns<'_, R>) -> StoreResult<ApiKey> {
    Ok(ApiKey {
        project: columns.id(ProjectId::new)?,
        id: columns.id(KeyId::new)?,
        scopes: scopes(&columns.text()?),
        created_at: columns.time()?,
        expires_at: columns.maybe_time()?,
        revoked_at: columns.maybe_time()?,
    })
}

/// API keys: project, id, scopes, and the times of creation, expiry and revocation.
pub(crate) fn keys<R: Cells>(rows: &[R]) -> StoreResult<Vec<ApiKey>> {
    each(rows, key)
}

/// API keys with their digests; each row begins with the digest.
pub(crate) fn all_keys<R: Cells>(rows: &[R]) -> StoreResult<Vec<(ApiKey, Digest)>> {
    each(rows, |columns| {
        let digest = columns.bytes()?.try_into().map_err(|_| corrupt("a digest that is none"))?;
        Ok((key(columns)?, Digest(digest)))
    })
}

/// Entries of the audit: number, project, time, actor, action and facts.
pub(crate) fn audit<R: Cells>(rows: &[R]) -> StoreResult<Vec<(i64, AuditEntry)>> {
    each(rows, |columns| {
        let number = columns.int()?;
        let entry = AuditEntry {
            project: columns.id(ProjectId::new)?,
            at: columns.time()?,
            actor: columns.text()?,
            action: columns.text()?,
            facts: columns.text()?,
        };
        Ok((number, entry))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_of_a_newer_release_grants_nothing() {
        assert_eq!(scopes("read fly write"), Scopes::USER);
        assert_eq!(scopes(&Scopes::ALL.to_string()), Scopes::ALL);
        assert_eq!(scopes(""), Scopes::default());
    }
}
