//! Directories and processes of a measurement, removed at its end.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

use super::BenchError;

/// Empty directory, removed when dropped.
#[derive(Debug)]
pub struct TempDir(PathBuf);

impl TempDir {
    /// Creates a directory inside `parent`.
    pub fn new(parent: &Path) -> Result<Self, BenchError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("threadline-bench-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).map_err(|error| BenchError::Io(path.clone(), error))?;
        Ok(Self(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::warn!(%error, path = %self.0.display(), "a directory of the measurement was not removed");
        }
    }
}

/// Another process of this program, so that client and server share no runtime. The process ends when its standard
/// input is closed, so that it cannot outlive its parent.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// Addresses that the process listens on.
    pub addresses: Vec<SocketAddr>,
}

impl Process {
    /// Starts `threadline-bench <role>` and waits until it announces its addresses.
    pub fn start(role: &str) -> Result<Self, BenchError> {
        Self::start_with(role, |_| {})
    }

    /// Does the same as [`Process::start`], with more arguments or variables.
    pub fn start_with(role: &str, tell: impl FnOnce(&mut Command)) -> Result<Self, BenchError> {
        let failed = |error| BenchError::Process(role.to_owned(), error);
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command
            .arg(role)
            .env_remove(crate::FOR_VERSION)
            .env("RUST_LOG", "warn")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        tell(&mut command);
        let mut child = command.spawn().map_err(failed)?;
        let mut line = String::new();
        if let Some(out) = child.stdout.take() {
            BufReader::new(out).read_line(&mut line).map_err(failed)?;
        }
        let addresses: Vec<_> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let process = Self { child, addresses };
        if process.addresses.is_empty() {
            return Err(failed(std::io::Error::other("it ended before it was listening")));
        }
        Ok(process)
    }

    /// Resident memory in bytes; `None` if the system does not report it.
    pub fn resident_bytes(&self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1_024)
    }

    /// CPU seconds of its threads so far; `None` if the system does not report them.
    pub fn cpu_seconds(&self) -> Option<f64> {
        let threads = fs::read_dir(format!("/proc/{}/task", self.child.id())).ok()?;
        // A thread may end during the iteration.
        let times = threads.flatten().filter_map(|thread| fs::read_to_string(thread.path().join("schedstat")).ok());
        let nanoseconds = times.filter_map(|times| times.split(' ').next()?.parse::<u64>().ok()).sum::<u64>();
        Some(nanoseconds as f64 / 1e9)
    }

    /// First address of the process.
    pub fn address(&self) -> SocketAddr {
        self.addresses[0]
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        if let Err(error) = self.child.wait() {
            tracing::warn!(%error, "a process of the measurement did not end");
        }
    }
}

/// Raises the limit of open files to the allowed maximum. Returns the limit.
pub fn raise_file_limit() -> u64 {
    rlimit::increase_nofile_limit(u64::MAX).unwrap_or(1_024)
}

/// Announces the addresses to the parent; called in the child.
pub fn announce(addresses: &[SocketAddr]) {
    let words: Vec<_> = addresses.iter().map(SocketAddr::to_string).collect();
    println!("{}", words.join(" "));
}

/// Completes when the parent closes standard input, or has ended; called in the child.
pub async fn released() {
    let (done, wait) = tokio::sync::oneshot::channel();
    // A separate thread, for which the runtime does not wait.
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let _ = done.send(());
    });
    let _ = wait.await;
}
