//! A file beside the database that remembers the newest beat which the database has committed: a database that was put
//! back to an older state has an older one.

use std::{
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::MetadataExt,
    path::Path,
};

use serde::{Deserialize, Serialize};
use threadline_core::NodeId;

use super::super::private;

/// Name of the file, in the directory of the database.
const WITNESS: &str = "witness";

/// State of the database file when a process last noted it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Witness {
    pub(super) generation: i64,
    pub(super) nonce: i64,
    pub(super) node: NodeId,
    /// Number of the newest beat that the node has committed.
    pub(super) beat: u64,
    /// Inode of the database file: a copy has another one.
    pub(super) inode: u64,
}

/// Inode of the database file; `None` if there is no file.
pub(super) fn inode(file: &Path) -> Option<u64> {
    fs::metadata(file).ok().map(|file| file.ino())
}

/// The witness of a database file; `None` if it has none, or an unreadable one.
pub(super) fn read(file: &Path) -> Option<Witness> {
    serde_json::from_slice(&fs::read(file.with_file_name(WITNESS)).ok()?).ok()
}

/// Replaces the witness. After a power failure the directory has the old one or the new one.
pub(super) fn write(file: &Path, witness: Witness) -> io::Result<()> {
    let (path, part) = (file.with_file_name(WITNESS), file.with_file_name("witness.part"));
    let mut written = private::open(&part)?;
    written.set_len(0)?;
    written.write_all(serde_json::to_string(&witness)?.as_bytes())?;
    written.sync_data()?;
    fs::rename(&part, &path)?;
    file.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
}
