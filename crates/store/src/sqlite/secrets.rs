//! Secrets of a data directory. Without a key file of its own, the server makes one next to the database; a backup does not
//! copy it.

use std::{fs, io, path::Path, sync::Arc};

use sqlx::{SqliteConnection, query};
use threadline_secrets::Keyring;

use super::{
    fetch::{self, Failure},
    open_error::OpenError,
    rows::Columns,
};
use crate::{
    SecretAccess, SecretsError, StoreError, private,
    sql::{
        secrets::{Secrets, is_sealed},
        tables::secrets::{CHANGE_ROOT, MAKE_ROOT, ROOT_VALUE},
    },
};

/// File in the data directory that has the keys.
const KEY_FILE: &str = "secret.key";

/// Opens the secrets of the file, and seals the root of digests first, if there are keys.
pub(super) async fn of(
    connection: &mut SqliteConnection,
    dir: &Path,
    access: SecretAccess,
) -> Result<Secrets, OpenError> {
    let failed = |failure: Failure| StoreError::from(failure);
    let row = fetch::row(connection, query(ROOT_VALUE)).await.map_err(failed)?;
    let stored = row.map(|row| Columns::new(&row).text()).transpose()?;
    let (keys, renewal) = match access {
        SecretAccess::Keys(keys) => (keys, false),
        SecretAccess::Renewal(keys) => (keys, true),
        SecretAccess::None => return Ok(Secrets::shut()),
    };
    let sealed = stored.as_deref().is_some_and(is_sealed);
    let keys = match keys {
        Some(keys) => Some(keys),
        None => own_keys(&dir.join(KEY_FILE), renewal || !sealed)?,
    };
    let (secrets, value) = Secrets::of(keys, renewal, stored.as_deref())?;
    if let Some(value) = value {
        let statement = match stored {
            Some(stored) => query(CHANGE_ROOT).bind(value).bind(stored),
            None => query(MAKE_ROOT).bind(value),
        };
        fetch::run(connection, statement).await.map_err(failed)?;
    }
    Ok(secrets)
}

/// Keys of the file in the data directory, which is made if `make` says so.
fn own_keys(path: &Path, make: bool) -> Result<Option<Arc<Keyring>>, OpenError> {
    private::close_to_others(path)?;
    let failed = |source: io::Error| SecretsError::File { path: path.to_owned(), source };
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound && make => {
            let line = Keyring::new_line().map_err(SecretsError::from)?;
            // Durable before any secret is sealed with its key.
            private::replace(&path.with_extension("key.part"), path, |_| Ok(line.clone())).map_err(failed)?;
            tracing::info!("made the key file {}: keep a copy of it apart from the backups", path.display());
            line
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error).into()),
    };
    let keys = text.parse().map_err(|source| SecretsError::Keys { path: path.to_owned(), source })?;
    Ok(Some(Arc::new(keys)))
}
