//! What is on disk is for its owner alone: it holds conversations, keys of agents and secrets of projects.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

/// Of directories: what is not here is made so, and what has more is made to have this.
const DIRECTORY: u32 = 0o700;
/// Of files.
const FILE: u32 = 0o600;
/// What group and others may do.
const OTHERS: u32 = 0o077;

/// A directory or file that others may read or change, and that cannot be closed to them.
#[derive(Debug, thiserror::Error)]
#[error(
    "{path} is accessible to other users (mode {mode:04o}), and its mode cannot be changed: {source}\n\
     As its owner, run: chmod go-rwx {path}\n\
     Or set --data to a new directory inside it; the server creates that directory with mode 0700.",
    path = .path.display()
)]
pub struct Exposed {
    path: PathBuf,
    mode: u32,
    source: io::Error,
}

impl From<Exposed> for io::Error {
    fn from(exposed: Exposed) -> Self {
        exposed.source
    }
}

/// Makes a directory, with those above it that are missing. True if it was not there.
pub fn make_directory(path: &Path) -> io::Result<bool> {
    if path.is_dir() {
        return Ok(false);
    }
    fs::DirBuilder::new().recursive(true).mode(DIRECTORY).create(path).map(|()| true)
}

/// Opens a file, or makes it, without changing what it holds.
pub fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).truncate(false).read(true).write(true).mode(FILE).open(path)
}

/// Closes a directory or file to others, if it is there and open to them.
pub fn close_to_others(path: &Path) -> Result<(), Exposed> {
    // What is not there is made for its owner alone, and what cannot be looked at cannot be opened either.
    let Ok(found) = fs::metadata(path) else { return Ok(()) };
    let mode = found.permissions().mode() & 0o7777;
    if mode & OTHERS == 0 {
        return Ok(());
    }
    let closed = mode & !OTHERS;
    let changed = fs::set_permissions(path, Permissions::from_mode(closed));
    changed.map_err(|source| Exposed { path: path.to_owned(), mode, source })?;
    tracing::warn!("{} was open to others: its mode was {mode:04o}, and is {closed:04o} now", path.display());
    Ok(())
}
