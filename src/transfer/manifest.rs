//! Manifest: the files of an export and their contents. The last line marks it as complete.

use std::{
    collections::BTreeMap,
    fmt,
    fs::File,
    io::{BufRead, BufReader},
};

use serde::{Deserialize, Serialize};
use threadline_core::{Epoch, ProjectId, Seq, ThreadId, Timestamp, UserId};

use super::{
    directory::{Directory, Facts, JOURNAL, MANIFEST, NewFile, file_of},
    error::{Damage, TransferError},
    format::{FORMAT, VERSION},
    selection::Selection,
};

/// First line of a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// Name of the format, [`FORMAT`].
    pub format: String,
    /// Version of the format, [`VERSION`].
    pub version: u32,
    /// Program and version that wrote the export.
    pub made_by: String,
    /// Start of the export.
    pub made_at: Timestamp,
    /// Threads in the export.
    pub selection: Selection,
}

impl Header {
    /// Header of a new export.
    pub fn new(selection: &Selection, made_at: Timestamp) -> Self {
        let made_by = format!("threadline {}", env!("CARGO_PKG_VERSION"));
        Self { format: FORMAT.to_owned(), version: VERSION, made_by, made_at, selection: selection.clone() }
    }
}

/// Thread and its file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ThreadEntry {
    pub project_id: ProjectId,
    pub thread_id: ThreadId,
    /// User who owns the thread.
    pub user_id: UserId,
    /// True if the thread has claimed its id in the project; absent: claimed.
    #[serde(default = "claimed", skip_serializing_if = "is_claimed")]
    pub claimed: bool,
    /// Incarnation of its log.
    pub epoch: Epoch,
    /// Number of its events.
    pub tail: Seq,
    /// Version of its row.
    pub version: i64,
    /// Path within the directory.
    pub file: String,
    /// Size of the file, in bytes.
    pub bytes: u64,
    /// SHA-256 of the file, in hexadecimal digits.
    pub sha256: String,
}

impl ThreadEntry {
    /// Name of the thread in the export.
    pub fn name(&self) -> ThreadName {
        name_of(&self.project_id, &self.user_id, &self.thread_id, self.claimed)
    }

    /// Expected size and digest of the file.
    pub fn facts(&self) -> Facts {
        Facts { bytes: self.bytes, sha256: self.sha256.clone() }
    }
}

/// File of items other than threads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FileEntry {
    /// Number of items in the file.
    pub count: u64,
    /// Size of the file, in bytes.
    pub bytes: u64,
    /// SHA-256 of the file, in hexadecimal digits.
    pub sha256: String,
}

impl FileEntry {
    /// Expected size and digest of the file.
    pub fn facts(&self) -> Facts {
        Facts { bytes: self.bytes, sha256: self.sha256.clone() }
    }
}

/// Last line of a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Complete {
    /// Number of threads in the export.
    pub threads: u64,
    /// Number of their events.
    pub events: u64,
    /// SHA-256 of all lines before this one.
    pub sha256: String,
}

/// Line after the header.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Line {
    Thread(ThreadEntry),
    Agents(FileEntry),
    /// Projects and their keys.
    Projects(FileEntry),
    Annotations(FileEntry),
    /// Item lists of the threads.
    Items(FileEntry),
    /// Checkpoints of the threads.
    Checkpoints(FileEntry),
    /// Key-value entries of users and projects.
    Kv(FileEntry),
    /// Plain streams of users and projects.
    Streams(FileEntry),
    Feeds(FileEntry),
    /// End of the manifest.
    Complete(Complete),
}

#[derive(Debug)]
pub struct Manifest {
    pub threads: Vec<ThreadEntry>,
    pub agents: Option<FileEntry>,
    /// Projects and their keys.
    pub projects: Option<FileEntry>,
    /// Annotations of the threads.
    pub annotations: Option<FileEntry>,
    /// Item lists of the threads.
    pub items: Option<FileEntry>,
    /// Checkpoints of the threads.
    pub checkpoints: Option<FileEntry>,
    /// Key-value entries of users and projects.
    pub kv: Option<FileEntry>,
    /// Plain streams of users and projects.
    pub streams: Option<FileEntry>,
    pub feeds: Option<FileEntry>,
}

/// Name of a thread in an export: its project and id, and its user if it has not claimed the id in the project.
pub type ThreadName = (ProjectId, ThreadId, Option<UserId>);

/// Threads of an export by their names.
pub type Threads = BTreeMap<ThreadName, ThreadEntry>;

/// Serialized form of a thread that has claimed its id, as all threads of earlier exports had.
pub(super) fn is_claimed(claimed: &bool) -> bool {
    *claimed
}

/// Value for a thread of an export that does not say whether it has claimed its id.
pub(super) fn claimed() -> bool {
    true
}

/// Name of the thread that has this user, id and claim.
pub fn name_of(project: &ProjectId, user: &UserId, id: &ThreadId, claimed: bool) -> ThreadName {
    (project.clone(), id.clone(), (!claimed).then(|| user.clone()))
}

fn lines(directory: &Directory, name: &str) -> Result<impl Iterator<Item = std::io::Result<Vec<u8>>>, TransferError> {
    let path = directory.at(name);
    let file = File::open(&path).map_err(|error| TransferError::Io(path, error))?;
    Ok(BufReader::new(file).split(b'\n'))
}

/// Reads the manifest of a finished export, and validates every line.
pub fn read(directory: &Directory) -> Result<Manifest, TransferError> {
    if !directory.has(MANIFEST) {
        let path = directory.path().to_owned();
        return Err(if directory.has(JOURNAL) {
            TransferError::Unfinished(path)
        } else {
            TransferError::Nothing(path)
        });
    }
    let damaged = |line, what: &dyn fmt::Display| TransferError::Damaged(Damage::at(MANIFEST, line, what));
    let mut manifest = Manifest {
        threads: Vec::new(),
        agents: None,
        projects: None,
        annotations: None,
        items: None,
        checkpoints: None,
        kv: None,
        streams: None,
        feeds: None,
    };
    let (mut digest, mut events) = (<sha2::Sha256 as sha2::Digest>::new(), 0u64);
    let mut complete = None;
    let mut number = 0;
    for line in lines(directory, MANIFEST)? {
        let line = line.map_err(|error| TransferError::Io(directory.at(MANIFEST), error))?;
        number += 1;
        if complete.is_some() {
            return Err(damaged(number, &"unexpected data after the end"));
        }
        if number == 1 {
            let header: Header = serde_json::from_slice(&line)
                .map_err(|error| damaged(1, &format_args!("not the manifest of an export: {error}")))?;
            if header.format != FORMAT {
                return Err(damaged(1, &"not the manifest of an export"));
            }
            if header.version != VERSION {
                let unknown =
                    format_args!("version {} of the format, but this program supports {VERSION}", header.version);
                return Err(damaged(1, &unknown));
            }
        } else {
            match serde_json::from_slice(&line).map_err(|error| damaged(number, &error))? {
                Line::Thread(entry) => {
                    if entry.file != file_of(&entry.name()) {
                        return Err(damaged(number, &"the file has an unexpected name"));
                    }
                    events = events.saturating_add(entry.tail);
                    manifest.threads.push(entry);
                }
                Line::Agents(file) => manifest.agents = Some(file),
                Line::Projects(file) => manifest.projects = Some(file),
                Line::Annotations(file) => manifest.annotations = Some(file),
                Line::Items(file) => manifest.items = Some(file),
                Line::Checkpoints(file) => manifest.checkpoints = Some(file),
                Line::Kv(file) => manifest.kv = Some(file),
                Line::Streams(file) => manifest.streams = Some(file),
                Line::Feeds(file) => manifest.feeds = Some(file),
                Line::Complete(end) => {
                    let found = threadline_core::hex(&sha2::Digest::finalize(digest.clone()));
                    if end.sha256 != found || (end.threads, end.events) != (manifest.threads.len() as u64, events) {
                        return Err(damaged(number, &"the previous lines were changed after the export"));
                    }
                    complete = Some(end);
                    continue;
                }
            }
        }
        sha2::Digest::update(&mut digest, &line);
        sha2::Digest::update(&mut digest, b"\n");
    }
    complete.map(|_| manifest).ok_or_else(|| damaged(number, &"the end is missing: the file is truncated"))
}

/// Reads the entries of an earlier export, finished or not. Unreadable lines count as absent.
pub fn known(directory: &Directory, selection: &Selection) -> Result<Threads, TransferError> {
    let mut known = Threads::new();
    for name in [MANIFEST, JOURNAL].into_iter().filter(|name| directory.has(name)) {
        let mut lines = lines(directory, name)?.map_while(Result::ok);
        let Some(header) = lines.next().and_then(|line| serde_json::from_slice::<Header>(&line).ok()) else { continue };
        if header.selection != *selection {
            return Err(TransferError::OtherSelection(directory.path().to_owned(), header.selection));
        }
        if header.version != VERSION {
            continue;
        }
        for line in lines {
            if let Ok(Line::Thread(entry)) = serde_json::from_slice(&line)
                && entry.file == file_of(&entry.name())
            {
                known.insert(entry.name(), entry);
            }
        }
    }
    Ok(known)
}

/// Begins a new journal with the known entries, and removes the finished manifest.
pub fn begin(directory: &Directory, header: &Header, known: &Threads) -> Result<(), TransferError> {
    let mut journal = NewFile::begin(directory, JOURNAL)?;
    journal.line(header)?;
    for entry in known.values() {
        journal.line(&Line::Thread(entry.clone()))?;
    }
    journal.finish()?;
    directory.remove(MANIFEST)
}

/// Writes the manifest of a finished export.
pub fn finish(
    directory: &Directory,
    header: &Header,
    threads: &Threads,
    others: impl IntoIterator<Item = Line>,
) -> Result<(), TransferError> {
    let mut file = NewFile::begin(directory, MANIFEST)?;
    file.line(header)?;
    for entry in threads.values() {
        file.line(&Line::Thread(entry.clone()))?;
    }
    for other in others {
        file.line(&other)?;
    }
    let events = threads.values().map(|entry| entry.tail).sum();
    let complete = Complete { threads: threads.len() as u64, events, sha256: file.sha256() };
    file.line(&Line::Complete(complete))?;
    file.finish()?;
    directory.remove(JOURNAL)
}
