//! The real program in a process of its own, ended by its pid whatever happens.

use std::{
    collections::VecDeque,
    fs,
    io::{BufRead, BufReader, Read},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, mpsc},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill, killpg},
    unistd::Pid,
};

const BINARY: &str = env!("CARGO_BIN_EXE_threadline");
const READY: Duration = Duration::from_secs(30);

type Lines = Arc<Mutex<VecDeque<String>>>;

/// A started process. Dropping it ends it and everything in its process group.
pub struct Server {
    child: Child,
    lines: Lines,
    urls: mpsc::Receiver<String>,
    /// `http://HOST:PORT`, once it is ready.
    pub url: String,
    /// Of the server itself, not of what it was started under.
    pub pid: Pid,
    pub spawned: Instant,
}

/// A command line of the server in development mode on a data directory; `under` comes before it (strace and the like).
pub fn command(data: &Path, under: &[&str]) -> Command {
    listening("127.0.0.1:0", data, under)
}

/// A command line like that of [`command`], on another address of this machine, or on all of them.
pub fn listening(address: &str, data: &Path, under: &[&str]) -> Command {
    let mut words = under.iter().copied().chain([BINARY, "serve", "--listen", address, "--data"]);
    let mut command = Command::new(words.next().expect("a word"));
    command
        .args(words)
        .arg(data)
        .env("THREADLINE_LISTEN", address)
        .env("THREADLINE_DATA", data)
        .env("NO_COLOR", "1")
        // Who wants a node to linger says so.
        .env("THREADLINE_DRAIN_DELAY", "0")
        .env("THREADLINE_DRAIN_SPREAD", "0")
        .env("THREADLINE_DRAIN_RUNS", "0")
        .env("THREADLINE_DEVELOPMENT", "true")
        .env_remove("THREADLINE_API_KEY")
        .env_remove("LD_PRELOAD");
    command
}

/// Fails with what to install if a tool is missing.
pub fn needs(tool: &str, package: &str) {
    let found = Command::new(tool).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert!(found.is_ok(), "these tests need `{tool}`: install the package {package} (apt-get install {package})");
}

impl Server {
    /// Starts it and does not wait.
    pub fn spawn(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let spawned = Instant::now();
        let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
        let lines = Lines::default();
        let (found, urls) = mpsc::channel();
        listen(child.stdout.take().expect("piped"), lines.clone(), found.clone());
        listen(child.stderr.take().expect("piped"), lines.clone(), found);
        let pid = Pid::from_raw(child.id() as i32);
        Self { child, lines, urls, url: String::new(), pid, spawned }
    }

    /// Starts it and waits until it listens.
    pub fn start(command: Command) -> Self {
        let mut server = Self::spawn(command);
        assert!(server.ready(), "the server did not get ready:\n{}", server.said());
        server
    }

    /// Starts it on a data directory.
    pub fn on(data: &Path) -> Self {
        Self::start(command(data, &[]))
    }

    /// Waits until it listens; false if it ended before that.
    pub fn ready(&mut self) -> bool {
        let Ok(url) = self.urls.recv_timeout(READY) else { return false };
        self.url = url;
        self.pid = find(self.pid).unwrap_or(self.pid);
        true
    }

    /// What it printed last.
    pub fn said(&self) -> String {
        let lines = self.lines.lock().expect("not poisoned");
        lines.iter().map(|line| format!("    {line}\n")).collect()
    }

    pub fn signal(&self, signal: Signal) {
        kill(self.pid, signal).expect("the process is there");
    }

    /// SIGKILL, and gone for sure.
    pub fn kill(&mut self) {
        if self.child.try_wait().expect("a child").is_none() {
            if let Some(server) = find(Pid::from_raw(self.child.id() as i32)) {
                let _ = kill(server, Signal::SIGKILL);
            }
            if self.wait(Duration::from_secs(5)).is_none() {
                let _ = killpg(Pid::from_raw(self.child.id() as i32), Signal::SIGKILL);
                let _ = self.child.wait();
            }
        }
    }

    /// Waits for its end.
    pub fn wait(&mut self, patience: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + patience;
        loop {
            match self.child.try_wait().expect("a child") {
                Some(status) => return Some(status),
                None if Instant::now() > deadline => return None,
                None => thread::sleep(Duration::from_millis(3)),
            }
        }
    }

    /// Resident memory in KiB.
    pub fn rss_kib(&self) -> u64 {
        self.memory_kib("VmRSS:")
    }

    /// Most resident memory in KiB since [`Self::forget_most_rss`].
    pub fn most_rss_kib(&self) -> u64 {
        self.memory_kib("VmHWM:")
    }

    /// Has the kernel measure the most resident memory from now on.
    pub fn forget_most_rss(&self) {
        fs::write(format!("/proc/{}/clear_refs", self.pid), "5").expect("the process is ours");
    }

    fn memory_kib(&self, name: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).expect("running");
        let line = status.lines().find(|line| line.starts_with(name)).expect("a line of that name");
        line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number")
    }

    /// Time on the processor so far.
    pub fn cpu(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).expect("running");
        // After the name, which may contain anything: user and system time are the 12th and 13th fields, in hundredths.
        let fields: Vec<&str> = stat.rsplit(')').next().expect("fields").split_whitespace().collect();
        let ticks: u64 = fields[11..13].iter().map(|ticks| ticks.parse::<u64>().expect("a number")).sum();
        Duration::from_millis(10 * ticks)
    }

    /// Open file descriptors.
    pub fn fds(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.pid)).expect("running").count()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        let _ = killpg(Pid::from_raw(self.child.id() as i32), Signal::SIGKILL);
        if thread::panicking() {
            println!("the last lines of server {}:\n{}", self.pid, self.said());
        }
    }
}

/// The server among a process and its descendants.
fn find(pid: Pid) -> Option<Pid> {
    let exe = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    if exe.to_string_lossy().starts_with(BINARY) {
        return Some(pid);
    }
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    children.split_whitespace().filter_map(|pid| pid.parse().ok()).find_map(|pid| find(Pid::from_raw(pid)))
}

fn listen(from: impl Read + Send + 'static, lines: Lines, found: mpsc::Sender<String>) {
    thread::spawn(move || {
        let mut found = Some(found);
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if let Some(at) = ["http://127.0.0.1:", "http://0.0.0.0:"].iter().find_map(|url| line.find(url)) {
                let url: String = line[at..].chars().take_while(|c| !c.is_whitespace() && *c != '"').collect();
                let url = url.replace("0.0.0.0", "127.0.0.1");
                if let Some(found) = found.take() {
                    let _ = found.send(url.trim_end_matches(['/', ',', '.', ')']).to_owned());
                }
            }
            let mut lines = lines.lock().expect("not poisoned");
            lines.push_back(line);
            if lines.len() > 60 {
                lines.pop_front();
            }
        }
    });
}
