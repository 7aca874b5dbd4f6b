//! Access modes of the files on disk. Only their owner may read them: they hold conversations, keys of agents and
//! secrets of projects.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

/// Mode of directories: missing ones are created with it, and wider modes are reduced to it.
const DIRECTORY: u32 = 0o700;
/// Mode of files that are created.
const FILE: u32 = 0o600;
/// Mode bits of group and others, which are removed.
const OTHERS: u32 = 0o077;

/// A directory or file that other users may read or change, and whose mode cannot be restricted.
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

/// Creates a directory, with its missing parents. True if it did not exist.
pub fn make_directory(path: &Path) -> io::Result<bool> {
    if path.is_dir() {
        return Ok(false);
    }
    fs::DirBuilder::new().recursive(true).mode(DIRECTORY).create(path).map(|()| true)
}

/// Opens a file, or creates it, and keeps its contents.
pub fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).truncate(false).read(true).write(true).mode(FILE).open(path)
}

/// Removes the access of other users to a directory or file, if it exists and they have any.
pub fn close_to_others(path: &Path) -> Result<(), Exposed> {
    // A missing file is created for its owner alone, and a file whose metadata cannot be read cannot be opened either.
    let Ok(found) = fs::metadata(path) else { return Ok(()) };
    let mode = found.permissions().mode() & 0o7777;
    if mode & OTHERS == 0 {
        return Ok(());
    }
    let closed = mode & !OTHERS;
    let changed = fs::set_permissions(path, Permissions::from_mode(closed));
    changed.map_err(|source| Exposed { path: path.to_owned(), mode, source })?;
    tracing::warn!(
        "{} was accessible to other users: changed its mode from {mode:04o} to {closed:04o}",
        path.display()
    );
    Ok(())
}
