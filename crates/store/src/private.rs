//! Access modes of the files on disk. Only their owner may read them: they hold conversations, keys of agents and
//! secrets of projects. Files with keys that an operator names are only checked.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

/// Mode of directories: missing ones are created with it, and wider modes are reduced to it.
const DIRECTORY: u32 = 0o700;
/// Mode of files that are created.
const FILE: u32 = 0o600;
/// Mode bits of group and others, which are removed.
const OTHERS: u32 = 0o077;

/// Mode bits with which group or others may change a file.
const CHANGE: u32 = 0o022;
/// Mode bit with which every user may read a file.
const READ_BY_ALL: u32 = 0o004;

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

/// A file of secrets that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// The file cannot be read.
    #[error("cannot read the file of secrets {path}: {1}", path = .0.display())]
    Io(PathBuf, #[source] io::Error),
    /// Other users may put secrets of their own into the file.
    #[error(
        "other users can change the file of secrets {path} (mode {1:04o}): run chmod go-w {path}",
        path = .0.display()
    )]
    Changeable(PathBuf, u32),
    /// Every user may read the file, and it is on a disk.
    #[error(
        "every user can read the file of secrets {path} (mode {1:04o}): run chmod o-r {path}. Only a file in memory (tmpfs), as \
         container platforms mount secrets, may have this mode",
        path = .0.display()
    )]
    Readable(PathBuf, u32),
}

/// Reads a file of secrets (keys, or a URL with a password) that an operator names. Its mode is never changed: another program may need it.
pub fn read_key_file(path: &Path) -> Result<String, KeyFileError> {
    let failed = |error| KeyFileError::Io(path.to_owned(), error);
    let mut file = File::open(path).map_err(failed)?;
    let mode = file.metadata().map_err(failed)?.permissions().mode() & 0o7777;
    if mode & CHANGE != 0 {
        return Err(KeyFileError::Changeable(path.to_owned(), mode));
    }
    if mode & READ_BY_ALL != 0 && !is_in_memory(&file) {
        return Err(KeyFileError::Readable(path.to_owned(), mode));
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}

/// True if the file is in a file system of the memory, which only the mounts of one container show.
#[cfg(target_os = "linux")]
fn is_in_memory(file: &File) -> bool {
    use nix::sys::statfs::{FsType, TMPFS_MAGIC, fstatfs};
    /// Old versions of systemd keep credentials in a ramfs.
    const RAMFS_MAGIC: FsType = FsType(0x8584_58f6);
    fstatfs(file).is_ok_and(|found| [TMPFS_MAGIC, RAMFS_MAGIC].contains(&found.filesystem_type()))
}

#[cfg(not(target_os = "linux"))]
fn is_in_memory(_file: &File) -> bool {
    false
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

/// Replaces a file: after a power failure the directory has the old one or the new one. `part` is the name that the new
/// one has until it is whole; `content` may look at the file that it will be in, which keeps its identity.
pub fn replace(part: &Path, path: &Path, content: impl FnOnce(&File) -> io::Result<String>) -> io::Result<()> {
    let mut file = open(part)?;
    let text = content(&file)?;
    file.set_len(0)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(part, path)?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_files_are_checked_and_left_as_they_are() {
        let disk = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a directory");
        let path = disk.path().join("key");
        fs::write(&path, "the key").expect("written");
        let read = |mode: u32| {
            fs::set_permissions(&path, Permissions::from_mode(mode)).expect("ours");
            let read = read_key_file(&path);
            assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o7777, mode);
            read
        };
        for mode in [0o400, 0o600, 0o440, 0o640] {
            assert_eq!(read(mode).expect("accepted"), "the key", "{mode:o}");
        }
        for mode in [0o620, 0o602, 0o666] {
            let refused = read(mode).expect_err("refused");
            assert!(matches!(refused, KeyFileError::Changeable(..)), "{refused}");
            assert!(refused.to_string().contains(&format!("{mode:04o}")) && refused.to_string().contains("chmod go-w"));
        }
        for mode in [0o444, 0o604] {
            let refused = read(mode).expect_err("refused");
            assert!(matches!(refused, KeyFileError::Readable(..)), "{refused}");
            assert!(refused.to_string().contains("chmod o-r"));
        }
        assert!(matches!(read_key_file(&disk.path().join("none")), Err(KeyFileError::Io(..))));
    }

    /// Secrets of Kubernetes and of Docker's swarm are such files.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_key_file_in_memory_may_be_readable() {
        let memory = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
        let path = memory.path().join("key");
        fs::write(&path, "the key").expect("written");
        fs::set_permissions(&path, Permissions::from_mode(0o444)).expect("ours");
        assert_eq!(read_key_file(&path).expect("accepted"), "the key");
        fs::set_permissions(&path, Permissions::from_mode(0o446)).expect("ours");
        assert!(matches!(read_key_file(&path), Err(KeyFileError::Changeable(..))));
    }
}
