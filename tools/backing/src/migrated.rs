//! Data directories with a migrated database.

use std::{ffi::OsString, fs, path::Path};

use tempfile::TempDir;
use tokio::sync::OnceCell;

/// Names and contents of the files of a directory.
type Files = Vec<(OsString, Vec<u8>)>;

static TEMPLATE: OnceCell<Files> = OnceCell::const_new();

/// Creates a directory with the files that `migrate` creates in an empty one. `migrate` runs once in a process, and must close what it
/// opens: each of these directories is a copy, which spares most of the work and all waits for the disk.
pub async fn migrated_directory(migrate: impl AsyncFnOnce(&Path)) -> TempDir {
    let template = TEMPLATE.get_or_init(|| async {
        let directory = empty();
        migrate(directory.path()).await;
        files(directory.path())
    });
    let directory = empty();
    for (name, content) in template.await {
        fs::write(directory.path().join(name), content).expect("written");
    }
    directory
}

fn empty() -> TempDir {
    tempfile::tempdir().expect("a directory")
}

fn files(directory: &Path) -> Files {
    let entries = fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry"));
    entries.map(|entry| (entry.file_name(), fs::read(entry.path()).expect("a file"))).collect()
}
