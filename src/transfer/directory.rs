//! Directory of an export: its layout, and files that are complete or absent.

use std::{
    fs::{self, File, TryLockError},
    io::{self, BufWriter, Seek, SeekFrom, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};
use threadline_core::hex;
use threadline_store::private;

use super::{error::TransferError, manifest::ThreadName};

/// Manifest of a finished export.
pub const MANIFEST: &str = "manifest.ndjson";
/// Manifest of an export in progress.
pub const JOURNAL: &str = "manifest.partial.ndjson";
/// File of agents that were made over the API.
pub const AGENTS: &str = "agents.ndjson";
/// File of projects and their API keys.
pub const PROJECTS: &str = "projects.ndjson";
/// File of the annotations of threads.
pub const ANNOTATIONS: &str = "annotations.ndjson";
/// File of the item lists of threads.
pub const ITEMS: &str = "items.ndjson";
/// File of the checkpoints of threads.
pub const CHECKPOINTS: &str = "checkpoints.ndjson";
/// File of key-value entries.
pub const KV: &str = "kv.ndjson";
/// File of plain streams.
pub const STREAMS: &str = "streams.ndjson";
/// File of the feeds of users.
pub const FEEDS: &str = "feeds.ndjson";
/// Directory of the files of threads.
const THREADS: &str = "threads";

/// Directory of an export, locked: one export or import may use it at a time.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    lock: File,
}

impl Drop for Directory {
    /// Unlocks explicitly, since closing the file is not enough: a child process that is just starting still holds it
    /// open.
    fn drop(&mut self) {
        let _ = self.lock.unlock();
    }
}

impl Directory {
    /// Opens and locks an existing directory.
    pub fn open(path: &Path) -> Result<Self, TransferError> {
        let lock = match File::open(path) {
            Ok(lock) => lock,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(TransferError::Nothing(path.to_owned()));
            }
            Err(error) => return Err(TransferError::Io(path.to_owned(), error)),
        };
        match lock.try_lock() {
            Ok(()) => Ok(Self { path: path.to_owned(), lock }),
            Err(TryLockError::WouldBlock) => Err(TransferError::InUse(path.to_owned())),
            Err(TryLockError::Error(error)) => Err(TransferError::Io(path.to_owned(), error)),
        }
    }

    /// Opens the directory or creates it, with access for its owner only, since agents have keys and projects secrets.
    /// An existing directory is closed to other users.
    pub fn make(path: &Path) -> Result<Self, TransferError> {
        let make = |path: &Path| fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
        make(path).map_err(|error| TransferError::Io(path.to_owned(), error))?;
        let directory = Self::open(path)?;
        if !directory.is_begun() && !directory.is_empty_so_far()? {
            return Err(TransferError::NotAnExport(path.to_owned()));
        }
        let threads = directory.at(THREADS);
        make(&threads).map_err(|error| TransferError::Io(threads.clone(), error))?;
        for made in [path, &threads] {
            private::close_to_others(made).map_err(|exposed| TransferError::Io(made.to_owned(), exposed.into()))?;
        }
        Ok(directory)
    }

    /// True if an export began here, or was finished.
    fn is_begun(&self) -> bool {
        [MANIFEST, JOURNAL, &draft_of(JOURNAL)].into_iter().any(|file| self.has(file))
    }

    /// True if the directory has nothing but an empty directory of threads, which is all that an export leaves that was killed
    /// before it began its journal.
    fn is_empty_so_far(&self) -> Result<bool, TransferError> {
        let threads = self.at(THREADS);
        let fail = |error| TransferError::Io(self.path.clone(), error);
        for inside in fs::read_dir(&self.path).map_err(fail)? {
            if inside.map_err(fail)?.path() != threads || !has_no_entry(&threads).map_err(fail)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Path of a file in the directory.
    pub fn at(&self, file: &str) -> PathBuf {
        self.path.join(file)
    }

    /// True if the file exists.
    pub fn has(&self, file: &str) -> bool {
        self.at(file).exists()
    }

    /// Removes a file if it exists, after making earlier renames in the directory durable.
    pub fn remove(&self, file: &str) -> Result<(), TransferError> {
        sync_directory(&self.path)?;
        match fs::remove_file(self.at(file)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(TransferError::Io(self.at(file), error)),
            _ => Ok(()),
        }
    }

    /// Removes the files of threads that are not among these, and unfinished files.
    pub fn keep_only(&self, files: &std::collections::HashSet<&str>) -> Result<(), TransferError> {
        let threads = self.at(THREADS);
        let fail = |path: &Path| {
            let path = path.to_owned();
            move |error| TransferError::Io(path, error)
        };
        for directory in fs::read_dir(&threads).map_err(fail(&threads))? {
            let directory = directory.map_err(fail(&threads))?.path();
            for file in fs::read_dir(&directory).map_err(fail(&directory))? {
                let file = file.map_err(fail(&directory))?.path();
                let name = file.strip_prefix(&self.path).unwrap_or(&file).to_string_lossy();
                if !files.contains(name.as_ref()) {
                    fs::remove_file(&file).map_err(fail(&file))?;
                }
            }
            sync_directory(&directory)?;
        }
        sync_directory(&threads)
    }
}

/// True if the path is a directory without entries.
fn has_no_entry(path: &Path) -> io::Result<bool> {
    Ok(path.symlink_metadata()?.is_dir() && fs::read_dir(path)?.next().transpose()?.is_none())
}

/// Makes the entries of a directory durable.
fn sync_directory(path: &Path) -> Result<(), TransferError> {
    File::open(path).and_then(|it| it.sync_all()).map_err(|error| TransferError::Io(path.to_owned(), error))
}

/// File name of a thread: made from a digest of its ids, since ids may not be valid file names.
pub fn file_of((project, id, user): &ThreadName) -> String {
    let mut digest = Sha256::new();
    // Ids hold no control characters, so that the separator keeps any two names distinct.
    digest.update(project.as_str());
    digest.update([0]);
    digest.update(id.as_str());
    if let Some(user) = user {
        digest.update([0]);
        digest.update(user.as_str());
    }
    let name = hex(&digest.finalize()[..16]);
    format!("{THREADS}/{}/{name}.ndjson", &name[..2])
}

/// Size and digest of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    pub bytes: u64,
    /// SHA-256 of the file, in hexadecimal digits.
    pub sha256: String,
}

/// Name of a file while it is written.
fn draft_of(file: &str) -> String {
    format!("{file}.tmp")
}

/// File that is written next to its final place.
pub struct NewFile {
    path: PathBuf,
    draft: PathBuf,
    out: BufWriter<File>,
    digest: Sha256,
    bytes: u64,
}

/// Place in a file that is being written.
pub struct Mark {
    digest: Sha256,
    bytes: u64,
}

impl NewFile {
    /// Begins a file; an existing file stays until the new one is finished.
    pub fn begin(directory: &Directory, file: &str) -> Result<Self, TransferError> {
        let (path, draft) = (directory.at(file), directory.at(&draft_of(file)));
        let make = || {
            if let Some(parent) = path.parent() {
                fs::DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
            }
            File::options().write(true).create(true).truncate(true).mode(0o600).open(&draft)
        };
        let out = make().map_err(|error| TransferError::Io(draft.clone(), error))?;
        Ok(Self { path, draft, out: BufWriter::new(out), digest: Sha256::new(), bytes: 0 })
    }

    /// Appends bytes to the file.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), TransferError> {
        self.digest.update(bytes);
        self.bytes += bytes.len() as u64;
        self.out.write_all(bytes).map_err(|error| TransferError::Io(self.draft.clone(), error))
    }

    /// Appends a line of JSON.
    pub fn line(&mut self, line: &impl serde::Serialize) -> Result<(), TransferError> {
        self.write(&json_line(line))
    }

    /// The present end of the file.
    pub fn mark(&self) -> Mark {
        Mark { digest: self.digest.clone(), bytes: self.bytes }
    }

    /// Takes back all bytes that were appended since a mark.
    pub fn rewind(&mut self, mark: &Mark) -> Result<(), TransferError> {
        (self.digest, self.bytes) = (mark.digest.clone(), mark.bytes);
        let cut = |out: &mut BufWriter<File>| {
            // Flushes first.
            out.seek(SeekFrom::Start(mark.bytes))?;
            out.get_ref().set_len(mark.bytes)
        };
        cut(&mut self.out).map_err(|error| TransferError::Io(self.draft.clone(), error))
    }

    /// SHA-256 of the bytes so far, in hexadecimal digits.
    pub fn sha256(&self) -> String {
        hex(&self.digest.clone().finalize())
    }

    /// Makes the file durable, and renames it to its final place.
    pub fn finish(self) -> Result<Facts, TransferError> {
        let facts = Facts { bytes: self.bytes, sha256: self.sha256() };
        let Self { path, draft, out, .. } = self;
        let put = || {
            out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
            fs::rename(&draft, &path)
        };
        put().map_err(|error| TransferError::Io(path.clone(), error))?;
        Ok(facts)
    }
}

/// Serializes a value as a line of JSON, with its line end.
pub fn json_line(line: &impl serde::Serialize) -> Vec<u8> {
    // Serialization fails only for maps whose keys are not strings, and no line has such a map.
    let mut bytes = serde_json::to_vec(line).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_export_that_was_killed_before_its_journal_is_begun_again() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("files");
        drop(Directory::make(&path).expect("is made"));
        let directory = Directory::make(&path).expect("is begun again");
        drop((NewFile::begin(&directory, JOURNAL).expect("begins"), directory));
        drop(Directory::make(&path).expect("is begun again beside an unfinished journal"));
        fs::remove_file(path.join(draft_of(JOURNAL))).expect("removes");
        // Entries that no export made are left alone.
        fs::write(path.join(THREADS).join("notes"), "mine").expect("writes");
        assert!(matches!(Directory::make(&path), Err(TransferError::NotAnExport(_))));
        fs::remove_file(path.join(THREADS).join("notes")).expect("removes");
        fs::write(path.join("notes"), "mine").expect("writes");
        assert!(matches!(Directory::make(&path), Err(TransferError::NotAnExport(_))));
    }

    #[test]
    fn a_file_is_taken_back_to_a_mark() {
        let home = tempfile::tempdir().expect("a directory");
        let directory = Directory::make(&home.path().join("files")).expect("is made");
        let written = |parts: &[&str]| {
            let mut file = NewFile::begin(&directory, ITEMS).expect("begins");
            file.write(b"begin").expect("writes");
            let mark = file.mark();
            for part in parts {
                file.rewind(&mark).expect("takes back");
                file.write(part.as_bytes()).expect("writes");
            }
            let facts = file.finish().expect("finishes");
            (facts.bytes, facts.sha256, fs::read_to_string(directory.at(ITEMS)).expect("reads"))
        };
        let (bytes, digest, text) = written(&[&"long".repeat(10_000), "end"]);
        assert_eq!((bytes, &*text), (8, "beginend"));
        assert_eq!(written(&["end"]), (bytes, digest, text));
    }

    #[test]
    fn a_data_directory_is_free_once_its_server_has_exited() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("files");
        let directory = Directory::make(&path).expect("is made");
        assert!(matches!(Directory::open(&path), Err(TransferError::InUse(_))));
        // A child process holds this between fork and exec.
        let inherited = directory.lock.try_clone().expect("another of the same file");
        drop(directory);
        Directory::open(&path).expect("opens");
        drop(inherited);
    }
}
