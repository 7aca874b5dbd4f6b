//! Secrets of a data directory. Without a key file of its own, the server makes one next to the database; a backup does not
//! copy it.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::Path,
    sync::Arc,
    time::Duration,
};

use sqlx::{SqliteConnection, query};
use threadline_secrets::Keyring;

use super::{
    SqliteStore,
    fetch::{self, Failure},
    open_error::OpenError,
    rows::Columns,
};
use crate::{
    SecretAccess, SecretForm, SecretStore, SecretsError, StoreError, StoreResult, private,
    sql::{
        secrets::{Secrets, is_sealed},
        tables::secrets::{CHANGE_ROOT, MAKE_ROOT, ROOT_VALUE},
    },
};

/// File in the data directory that has the keys.
const KEY_FILE: &str = "secret.key";
/// Attempts to cut the write-ahead log, and the pause between two of them.
const CUTS: usize = 50;
const CUT_PAUSE: Duration = Duration::from_millis(20);

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
            write(path, &line).map_err(failed)?;
            tracing::info!("made the key file {}: keep a copy of it apart from the backups", path.display());
            line
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error).into()),
    };
    let keys = text.parse().map_err(|source| SecretsError::Keys { path: path.to_owned(), source })?;
    Ok(Some(Arc::new(keys)))
}

/// Writes the file durably, before any secret is sealed with its key.
fn write(path: &Path, line: &str) -> io::Result<()> {
    let part = path.with_extension("key.part");
    let mut file = private::open(&part)?;
    file.set_len(0)?;
    file.write_all(line.as_bytes())?;
    file.sync_all()?;
    fs::rename(&part, path)?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()
}

impl SqliteStore {
    /// Seals what is not sealed with the key that seals now, as an older release or another first key has left it, and removes
    /// the former texts from the files.
    pub(super) async fn seal_all(&self) -> StoreResult<()> {
        let wanted = |form: &SecretForm| matches!(form, SecretForm::Unsealed | SecretForm::OtherKey);
        if !self.inner.secrets.seals() || !self.secret_forms().await?.iter().any(|(_, form)| wanted(form)) {
            return Ok(());
        }
        let pragma = async |text: &'static str| {
            self.write(move |connection| Box::pin(fetch::run(connection, query(text)))).await
        };
        // Freed space is overwritten.
        pragma("PRAGMA secure_delete = ON").await?;
        let sealed = self.reseal().await;
        pragma("PRAGMA secure_delete = OFF").await?;
        tracing::info!(sealed = sealed?, key = self.inner.secrets.sealing_key(), "sealed stored secrets");
        self.cut_log().await
    }

    /// Cuts the write-ahead log, which has the former pages. Another checkpoint may be under way.
    async fn cut_log(&self) -> StoreResult<()> {
        for _ in 0..CUTS {
            let cut = self.write(|connection| {
                Box::pin(async move {
                    let row = fetch::row(connection, query("PRAGMA wal_checkpoint(TRUNCATE)")).await?;
                    Ok(row.is_none_or(|row| Columns::new(&row).int().is_ok_and(|busy| busy == 0)))
                })
            });
            if cut.await? {
                return Ok(());
            }
            tokio::time::sleep(CUT_PAUSE).await;
        }
        tracing::warn!("the write-ahead log is in use, and has unsealed secrets until it is written back");
        Ok(())
    }
}
