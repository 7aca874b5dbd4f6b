//! Directories and processes that a measurement needs, gone when it ends.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

use super::BenchError;

/// An empty directory, removed when dropped.
#[derive(Debug)]
pub struct TempDir(PathBuf);

impl TempDir {
    /// Makes one inside `parent`.
    pub fn new(parent: &Path) -> Result<Self, BenchError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("threadline-bench-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).map_err(|error| BenchError::Io(path.clone(), error))?;
        Ok(Self(path))
    }

    /// Where it is.
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

/// Another process of this program, so that client and server share no runtime. It ends with its standard input,
/// which is ours to close: it cannot outlive us.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// Where it listens.
    pub addresses: Vec<SocketAddr>,
}

impl Process {
    /// Starts `threadline bench <role>` and waits until it says where it listens.
    pub fn start(role: &str) -> Result<Self, BenchError> {
        Self::start_with(role, |_| {})
    }

    /// [`Process::start`] with more arguments or variables.
    pub fn start_with(role: &str, tell: impl FnOnce(&mut Command)) -> Result<Self, BenchError> {
        let failed = |error| BenchError::Process(role.to_owned(), error);
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command.args(["bench", role]).env("RUST_LOG", "warn").stdin(Stdio::piped()).stdout(Stdio::piped());
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

    /// Its resident memory; `None` where the system does not say.
    pub fn resident_bytes(&self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1_024)
    }

    /// Seconds that its threads have spent on a processor so far; `None` where the system does not say.
    pub fn cpu_seconds(&self) -> Option<f64> {
        let threads = fs::read_dir(format!("/proc/{}/task", self.child.id())).ok()?;
        // A thread may end while we look.
        let times = threads.flatten().filter_map(|thread| fs::read_to_string(thread.path().join("schedstat")).ok());
        let nanoseconds = times.filter_map(|times| times.split(' ').next()?.parse::<u64>().ok()).sum::<u64>();
        Some(nanoseconds as f64 / 1e9)
    }

    /// Its first address.
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

/// Lets this process open as many files as it may; how many these are.
pub fn raise_file_limit() -> u64 {
    rlimit::increase_nofile_limit(u64::MAX).unwrap_or(1_024)
}

/// In the child: says where it listens.
pub fn announce(addresses: &[SocketAddr]) {
    let words: Vec<_> = addresses.iter().map(SocketAddr::to_string).collect();
    println!("{}", words.join(" "));
}

/// In the child: completes when the parent closes our standard input, or is gone.
pub async fn released() {
    let (done, wait) = tokio::sync::oneshot::channel();
    // A thread of its own, which the runtime does not wait for.
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let _ = done.send(());
    });
    let _ = wait.await;
}
