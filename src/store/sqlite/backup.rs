//! A copy of the file as of one moment, made beside a server that has it open.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use sqlx::{ConnectOptions, Connection, query};

use super::{
    super::private::{self, Exposed},
    FILE, read_options,
};

/// Why there is no copy. What was there before is untouched.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// There is no data to be copied.
    #[error("there is no data in {path}", path = .0.display())]
    NoData(PathBuf),
    /// Something is in the place of the copy.
    #[error("{path} is there already: name a new directory for each backup", path = .0.display())]
    Taken(PathBuf),
    /// Others may look into the directory of the copy, and it cannot be closed to them.
    #[error(transparent)]
    Exposed(#[from] Exposed),
    /// The copy cannot be written.
    #[error("cannot write {path}: {1}", path = .0.display())]
    Io(PathBuf, #[source] io::Error),
    /// The data cannot be read.
    #[error("cannot copy the database: {0}")]
    Database(#[from] sqlx::Error),
}

/// Copies the store in `dir` to the new directory `to`, which is then a data directory of its own; its size. The copy is
/// on disk, and whole, once it has its name.
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
    // Of a backup that was broken off.
    match fs::remove_file(&part) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fail(&part)(error)),
        _ => {}
    }
    // SQLite fills a file that is there and empty, and would make one that others can read.
    drop(private::open(&part).map_err(fail(&part))?);
    // It reads one moment of the log and writes nothing there, so it needs no lock of the directory.
    let mut connection = read_options(&file).connect().await?;
    query("VACUUM INTO ?1").bind(part.to_string_lossy()).execute(&mut connection).await?;
    connection.close().await?;
    let written = File::open(&part).map_err(fail(&part))?;
    written.sync_all().map_err(fail(&part))?;
    fs::rename(&part, &copy).map_err(fail(&copy))?;
    File::open(to).and_then(|directory| directory.sync_all()).map_err(fail(to))?;
    Ok(written.metadata().map_err(fail(&copy))?.len())
}
