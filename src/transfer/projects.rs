//! Export and import of projects and their API keys. Of a key only its digest moves: the key works with both stores.

use super::{
    directory::{Directory, Facts, NewFile, PROJECTS},
    error::{Damage, Refusal, TransferError},
    format::{KeyFacts, ProjectFacts, ProjectLine},
    manifest::FileEntry,
    reading::Lines,
    selection::ExportedSecrets,
};
use threadline_core::{ApiKey, Cutoff, CutoffKind, Digest, ProjectId, Timestamp};
use threadline_store::{
    StoreError, StoredProject, TransferStore,
    credentials::{CUTOFF_DIGESTS, cutoff_parts},
};

/// Writes the file of projects. Returns `None`, and leaves no file, if there are no projects and no keys.
pub async fn write(
    store: &dyn TransferStore,
    directory: &Directory,
    secrets: ExportedSecrets,
) -> Result<Option<FileEntry>, TransferError> {
    let mut lines = Vec::new();
    let cutoffs = store.cutoffs(Timestamp(i64::MIN)).await?;
    for project in store.projects().await? {
        let own = cutoffs.iter().filter(|cutoff| cutoff.project == project.id);
        let signed_out = own.map(|cutoff| cutoff.not_before).max();
        lines.push(ProjectLine::Project(ProjectFacts::of(project, signed_out, secrets)?));
    }
    for (key, digest) in store.all_keys().await? {
        lines.push(ProjectLine::Key(KeyFacts::of(key, &digest)));
    }
    if lines.is_empty() {
        directory.remove(PROJECTS)?;
        return Ok(None);
    }
    let mut file = NewFile::begin(directory, PROJECTS)?;
    for line in &lines {
        file.line(line)?;
    }
    let Facts { bytes, sha256 } = file.finish()?;
    Ok(Some(FileEntry { count: lines.len() as u64, bytes, sha256 }))
}

enum Item {
    Project(StoredProject, Option<Timestamp>),
    Key(ApiKey, Digest),
}

fn read(directory: &Directory, facts: Facts) -> Result<Vec<Item>, Damage> {
    let mut lines = Lines::open(directory, PROJECTS, facts)?;
    let mut items = Vec::new();
    while lines.advance()? {
        items.push(match lines.parse()? {
            ProjectLine::Project(project) => {
                let (project, signed_out) = project.project();
                Item::Project(project, signed_out)
            }
            ProjectLine::Key(key) => {
                let (key, digest) = key.key().map_err(|what| lines.damage(what))?;
                Item::Key(key, digest)
            }
        });
    }
    Ok(items)
}

/// Imports projects and keys, after the complete file has been validated. Existing ones stay unchanged, except that a
/// key which was revoked on either side is revoked.
pub async fn put(
    store: &dyn TransferStore,
    directory: &Directory,
    file: &FileEntry,
) -> Result<Vec<Refusal>, TransferError> {
    let items = read(directory, file.facts()).map_err(TransferError::Damaged)?;
    let mut refused = Vec::new();
    for item in items {
        match item {
            Item::Project(project, signed_out) => {
                if let Some(not_before) = signed_out {
                    sign_out(store, &project.id, not_before, "import").await?;
                }
                if !put_project(store, &project).await? && !is_there(store, &project).await? {
                    refused.push(Refusal {
                        what: format!("project {}", project.id),
                        why: "it exists with other settings or secrets, and was not changed".to_owned(),
                    });
                }
            }
            Item::Key(key, digest) => {
                if !store.put_key(&key, &digest, None).await? && !is_known(store, &key, &digest).await? {
                    refused.push(Refusal {
                        what: format!("key {} of project {}", key.id, key.project),
                        why: "another key has this ID, or this key has another ID; it was not changed".to_owned(),
                    });
                }
            }
        }
    }
    Ok(refused)
}

/// Stores a project, with a new secret if the export has none.
async fn put_project(store: &dyn TransferStore, project: &StoredProject) -> Result<bool, TransferError> {
    if project.secrets.is_some() {
        return Ok(store.put_project(project, None).await?);
    }
    let made = threadline_secrets::generate().map_err(|error| StoreError::Unavailable(error.to_string()))?;
    let secrets = Some(serde_json::json!([made]).to_string());
    Ok(store.put_project(&StoredProject { secrets, ..project.clone() }, None).await?)
}

/// Ends all tokens of a project that were issued up to a time. In an import it comes before the secrets, with which tokens become
/// valid again.
pub async fn sign_out(
    store: &dyn TransferStore,
    project: &ProjectId,
    not_before: Timestamp,
    actor: &str,
) -> Result<(), StoreError> {
    let kind = CutoffKind::Project;
    let subject = Digest(store.digest_key(CUTOFF_DIGESTS)?.digest(&cutoff_parts(project, kind, "")));
    let (project, at, actor) = (project.clone(), store.clock().now(), actor.to_owned());
    store.put_cutoff(&Cutoff { project, kind, subject, not_before, at, actor }, None).await
}

async fn is_there(store: &dyn TransferStore, project: &StoredProject) -> Result<bool, TransferError> {
    let all = store.projects().await?;
    let same = |own: &StoredProject| {
        own.settings == project.settings && (project.secrets.is_none() || own.secrets == project.secrets)
    };
    Ok(all.iter().any(|own| own.id == project.id && same(own)))
}

async fn is_known(store: &dyn TransferStore, key: &ApiKey, digest: &Digest) -> Result<bool, TransferError> {
    let same = |own: &ApiKey| ApiKey { revoked_at: key.revoked_at, last_used: None, ..own.clone() } == *key;
    let known = store.key(digest).await?.is_some_and(|own| same(&own));
    if let Some(at) = key.revoked_at.filter(|_| known) {
        store.revoke_key(&key.project, &key.id, at, None).await?;
    }
    Ok(known)
}
