//! Copies the database file as of one moment, while a server may have it open.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use sqlx::{ConnectOptions, Connection, query};

use super::{
    super::private::{self, Exposed},
    FILE,
    history::MARK_COPY,
    read_options,
};

/// Failure of a backup. Files that existed before are untouched.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The directory has no data to copy.
    #[error("{path} contains no data", path = .0.display())]
    NoData(PathBuf),
    /// A file exists at the path of the copy.
    #[error("{path} exists: choose a new directory for each backup", path = .0.display())]
    Taken(PathBuf),
    /// Other users may read the directory of the copy, and its mode cannot be restricted.
    #[error(transparent)]
    Exposed(#[from] Exposed),
    /// The copy cannot be written.
    #[error("cannot write {path}: {1}", path = .0.display())]
    Io(PathBuf, #[source] io::Error),
    /// The data cannot be read.
    #[error("cannot copy the database: {0}")]
    Database(#[from] sqlx::Error),
}

/// Copies the store in `dir` to the new directory `to`, which is then a data directory of its own; returns its size in
/// bytes. The copy is on disk, and complete, once it has its final name.
pub async fn backup(dir: &Path, to: &Path) -> Result<u64, BackupError> {
    let file = dir.join(FILE);
    if !file.is_file() {
        return Err(BackupError::NoData(dir.to_owned()));
    }
    let fail = |path: &Path| {
        let path = path.to_owned();
        move |error| BackupError::Io(path, error)
    };
    let (part, copy) = (to.join("threadline.db.part"), to.join(FILE));
    if copy.exists() {
        return Err(BackupError::Taken(copy));
    }
    private::make_directory(to).map_err(fail(to))?;
    private::close_to_others(to)?;
    // A backup that was interrupted may have left a partial copy.
    match fs::remove_file(&part) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fail(&part)(error)),
        _ => {}
    }
    // SQLite fills an empty file that exists, and would create a new one readable by other users.
    drop(private::open(&part).map_err(fail(&part))?);
    let _partial = PartialCopy(&part);
    // The backup reads one moment of the log and writes nothing there, so it needs no lock of the directory.
    let mut connection = read_options(&file).connect().await?;
    query("VACUUM INTO ?1").bind(part.to_string_lossy()).execute(&mut connection).await?;
    connection.close().await?;
    mark(&part).await?;
    let written = File::open(&part).map_err(fail(&part))?;
    written.sync_all().map_err(fail(&part))?;
    fs::rename(&part, &copy).map_err(fail(&copy))?;
    File::open(to).and_then(|directory| directory.sync_all()).map_err(fail(to))?;
    Ok(written.metadata().map_err(fail(&copy))?.len())
}

/// Copy without its final name, which is removed when the backup ends: after a failure it would fill the disk further.
struct PartialCopy<'a>(&'a Path);

impl Drop for PartialCopy<'_> {
    fn drop(&mut self) {
        // After a success there is none.
        drop(fs::remove_file(self.0));
    }
}

/// Marks the copy, which opens a generation when it is used: the original goes on, so their histories differ.
async fn mark(copy: &Path) -> Result<(), sqlx::Error> {
    let mut connection = sqlx::sqlite::SqliteConnectOptions::new().filename(copy).connect().await?;
    // A copy of a directory that an older release left has no lineage yet.
    let known: i64 = sqlx::query_scalar("SELECT count(*) FROM sqlite_schema WHERE name = 'lineage'")
        .fetch_one(&mut connection)
        .await?;
    if known > 0 {
        query(MARK_COPY).execute(&mut connection).await?;
    }
    connection.close().await
}
