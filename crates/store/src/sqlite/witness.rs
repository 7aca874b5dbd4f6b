//! A file beside the database that remembers the newest beat which the database has committed: a database that was put
//! back to an older state has an older one. The witness also names both files, the database and itself, so that one
//! which was copied together with its database is known for a copy.

use std::{
    fs::{self, Metadata},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use serde::{Deserialize, Serialize};
use threadline_core::NodeId;

use super::super::private;
use crate::Lineage;

/// Name of the file, in the directory of the database.
const WITNESS: &str = "witness";
/// Name of the next witness while it is written.
const PART: &str = "witness.part";

/// A file, told apart from its copies. A file system gives the inode of a removed file to the next one, and a copy over
/// an existing file keeps the inode; no other file has the same birth time as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Identity {
    inode: u64,
    /// Birth time in Unix nanoseconds; `None` if the file system has none.
    born: Option<u64>,
}

impl Identity {
    fn of(file: &Metadata) -> Self {
        let born = file.created().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        Self { inode: file.ino(), born: born.and_then(|born| u64::try_from(born.as_nanos()).ok()) }
    }

    fn at(path: &Path) -> io::Result<Self> {
        Ok(Self::of(&fs::metadata(path)?))
    }
}

/// State of the database file when a process last noted it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Witness {
    pub(super) generation: i64,
    pub(super) nonce: i64,
    pub(super) node: NodeId,
    /// Number of the newest beat that the node has committed.
    pub(super) beat: u64,
    database: Identity,
    itself: Identity,
}

impl Witness {
    /// True if a process has written this witness in its place, beside this database file: none of the two is a copy.
    pub(super) fn is_at(&self, file: &Path) -> bool {
        let is = |path: &Path, known| Identity::at(path).is_ok_and(|identity| identity == known);
        is(file, self.database) && is(&path(file), self.itself)
    }
}

fn path(file: &Path) -> PathBuf {
    file.with_file_name(WITNESS)
}

/// The witness of a database file; `None` if it has none, or an unreadable one.
pub(super) fn read(file: &Path) -> Option<Witness> {
    serde_json::from_slice(&fs::read(path(file)).ok()?).ok()
}

/// Replaces the witness. A file keeps its identity when it is renamed, so the new witness can name itself.
pub(super) fn write(file: &Path, lineage: Lineage, node: NodeId, beat: u64) -> io::Result<()> {
    private::replace(&file.with_file_name(PART), &path(file), |written| {
        let (database, itself) = (Identity::at(file)?, Identity::of(&written.metadata()?));
        let (generation, nonce) = (lineage.generation.0, lineage.nonce);
        Ok(serde_json::to_string(&Witness { generation, nonce, node, beat, database, itself })?)
    })
}
