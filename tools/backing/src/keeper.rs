//! A server in a process of its own, with a home directory. The server ends with the test that started it.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Seek, SeekFrom, Write},
    os::unix::{fs::MetadataExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// Timeout for the start of a server, including recovery after a kill, on a busy machine.
const READY: Duration = Duration::from_secs(60);

/// A small shell process between the test and a server. The shell reads commands from a pipe whose other end only this
/// process holds: if the test dies, the pipe ends, and the shell kills the server and cleans up. The shell has a
/// process group of its own, so that Ctrl-C reaches the test first.
#[derive(Debug)]
pub struct Keeper {
    home: PathBuf,
    child: Child,
    words: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    server: Option<Pid>,
}

impl Keeper {
    /// Starts a keeper with an empty home that is named after the server. `under` is a prefix of the shell's command
    /// line, such as `unshare`, and `last_words` is shell text that is run at the end, before the home is removed.
    pub fn new(name: &str, under: &[&str], last_words: &str) -> Self {
        let home =
            tempfile::Builder::new().prefix(&format!("threadline-{name}-")).tempdir().expect("a directory").keep();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/src/keeper.sh");
        let last_words = last_words.replace("$home", &home.to_string_lossy());
        let mut words = under.iter().copied().chain(["sh", script]);
        let mut command = Command::new(words.next().expect("a word"));
        command.args(words).arg(&home).arg(last_words).current_dir("/").process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
        let (words, answers) = (child.stdin.take(), child.stdout.take().expect("piped"));
        Self { home, child, words, answers: BufReader::new(answers), server: None }
    }

    /// Working directory of the server. Its log is the file `log` there.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Process id of the server, which may have ended.
    pub fn pid(&self) -> Pid {
        self.server.expect("started")
    }

    fn ask(&mut self, line: &str) -> i32 {
        assert!(!line.contains('\n'), "one line: {line}");
        let words = self.words.as_mut().expect("open until the end");
        let told = writeln!(words, "{line}").and_then(|()| words.flush());
        let mut answer = String::new();
        let heard = told.and_then(|()| self.answers.read_line(&mut answer));
        assert!(heard.is_ok(), "the keeper of {:?} is gone: {heard:?}", self.home);
        answer.trim().parse().unwrap_or_else(|_| panic!("the keeper of {:?} answers {answer:?} to {line}", self.home))
    }

    /// Runs shell text to its end.
    pub fn run(&mut self, text: &str) {
        let from = self.said_so_far();
        let status = self.ask(&format!("run {text}"));
        assert!(status == 0, "status {status} of: {text}\n{}", self.said(from));
    }

    /// Starts a command line and waits until its log contains `phrase`. Fails with the log if the process ends before,
    /// or after a timeout.
    pub fn start(&mut self, command: &str, phrase: &str) -> Result<(), String> {
        let from = self.said_so_far();
        let pid = Pid::from_raw(self.ask(&format!("start {command}")));
        self.server = Some(pid);
        let deadline = Instant::now() + READY;
        loop {
            let ended = !is_running(pid);
            let said = self.said(from);
            if said.contains(phrase) {
                return Ok(());
            }
            if ended || Instant::now() > deadline {
                self.kill();
                return Err(said);
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Sends SIGKILL to the server. Returns after the server and all its children have ended.
    pub fn kill(&mut self) {
        self.ask("kill");
    }

    /// True if the server runs, or is stopped by a signal.
    pub fn is_running(&self) -> bool {
        is_running(self.pid())
    }

    /// Sends a signal to the server and then to all its children: a stopped parent creates no new ones.
    pub fn signal_all(&self, signal: Signal) {
        kill(self.pid(), signal).expect("the server is there");
        for child in at_home(self.pid()) {
            // The child may have ended meanwhile.
            let _ = kill(child, signal);
        }
    }

    fn said_so_far(&self) -> u64 {
        fs::metadata(self.home.join("log")).map_or(0, |log| log.len())
    }

    /// Returns the log from an offset on.
    pub fn said(&self, from: u64) -> String {
        let mut text = Vec::new();
        let Ok(mut log) = fs::File::open(self.home.join("log")) else { return String::new() };
        log.seek(SeekFrom::Start(from)).and_then(|_| log.read_to_end(&mut text)).expect("a log");
        String::from_utf8_lossy(&text).into_owned()
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if thread::panicking() {
            let said = self.said(0);
            let last: Vec<_> = said.lines().rev().take(20).collect();
            println!("the last lines in {:?}:", self.home);
            last.iter().rev().for_each(|line| println!("    {line}"));
        }
        drop(self.words.take());
        let _ = self.child.wait();
        // The shell has removed the home, unless the shell was killed.
        let _ = fs::remove_dir_all(&self.home);
    }
}

/// True if a process exists and is not a zombie.
pub fn is_running(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// Returns all other processes with the same working directory as this one.
fn at_home(pid: Pid) -> Vec<Pid> {
    let place = |pid: &str| fs::metadata(format!("/proc/{pid}/cwd")).ok().map(|place| (place.dev(), place.ino()));
    let Some(home) = place(&pid.to_string()) else { return Vec::new() };
    let all = fs::read_dir("/proc").expect("Linux").flatten();
    let all = all.filter_map(|entry| entry.file_name().into_string().ok()?.parse::<i32>().ok());
    all.filter(|other| *other != pid.as_raw() && place(&other.to_string()) == Some(home)).map(Pid::from_raw).collect()
}
