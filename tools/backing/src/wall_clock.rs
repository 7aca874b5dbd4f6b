//! A wall clock that a test sets while processes run by it. Their steady clocks are not affected.

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

use tempfile::TempDir;

/// Wall clock of the processes that are started with its variables.
#[derive(Debug)]
pub struct WallClock {
    directory: TempDir,
}

impl Default for WallClock {
    fn default() -> Self {
        Self::new()
    }
}

/// Library that shows its process another time.
fn library() -> PathBuf {
    let found = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let mut found = found.map(|entry| entry.path().join("faketime/libfaketimeMT.so.1")).filter(|path| path.exists());
    found.next().expect("these tests need libfaketime: install the package faketime (apt-get install faketime)")
}

impl WallClock {
    /// A clock that shows the right time.
    pub fn new() -> Self {
        let clock = Self { directory: tempfile::tempdir().expect("a directory") };
        // Postgres runs as another user.
        fs::set_permissions(clock.directory.path(), fs::Permissions::from_mode(0o755)).expect("its own directory");
        clock.set(0);
        clock
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("time")
    }

    /// Sets the clock by this many seconds ahead of the right time, for all processes at once.
    pub fn set(&self, ahead: i64) {
        let part = self.directory.path().join("part");
        fs::write(&part, format!("{ahead:+}\n")).expect("written");
        fs::rename(part, self.file()).expect("renamed");
    }

    /// Environment variables of a process that runs by this clock.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        let mut variables = vec![
            ("LD_PRELOAD", library().display().to_string()),
            ("FAKETIME_TIMESTAMP_FILE", self.file().display().to_string()),
        ];
        let flags = [
            "FAKETIME_NO_CACHE",
            "FAKETIME_DONT_FAKE_MONOTONIC",
            "DONT_FAKE_MONOTONIC",
            "FAKETIME_DISABLE_SHM",
            "NO_FAKE_STAT",
        ];
        variables.extend(flags.map(|flag| (flag, "1".to_owned())));
        variables
    }
}
