//! A private PostgreSQL: its own directory and port, gone with the test process however that ends.

use std::{
    fs,
    io::Write,
    net::TcpListener,
    os::unix::{
        fs::chown,
        process::{CommandExt, ExitStatusExt},
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::{Pid, Uid, User},
};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(60);

/// A server. Its end is the end of its data.
pub struct Postgres {
    dir: TempDir,
    port: u16,
    options: Vec<(String, String)>,
    keeper: Option<Child>,
    databases: AtomicU64,
}

/// The user that the server runs as: it refuses to run as root.
fn user() -> Option<(u32, u32)> {
    if !Uid::effective().is_root() {
        return None;
    }
    let user = ["postgres", "nobody"].iter().find_map(|name| User::from_name(name).ok().flatten());
    let user = user.expect("as root, PostgreSQL needs an unprivileged user `postgres` or `nobody` to run as");
    Some((user.uid.as_raw(), user.gid.as_raw()))
}

/// A program of PostgreSQL: where Debian keeps it, the newest first, or on the PATH.
fn program(name: &str) -> PathBuf {
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let mut versions: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
        .map(|versions| versions.flatten().map(|version| version.path()).collect())
        .unwrap_or_default();
    versions.sort_by_key(|path| path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok()));
    let places = versions.into_iter().rev().map(|version| version.join("bin")).chain(std::env::split_paths(&on_path));
    places.map(|place| place.join(name)).find(|path| path.exists()).unwrap_or_else(|| {
        panic!(
            "{name} is missing: install PostgreSQL (Debian: apt-get install postgresql), or run scripts/setup.sh test"
        )
    })
}

fn command(program: impl AsRef<std::ffi::OsStr>, dir: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(dir).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("LC_ALL", "C");
    if let Some((uid, gid)) = user() {
        command.uid(uid).gid(gid);
    }
    command
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port").port()
}

impl Postgres {
    /// A server of its own, with options as on the command line (`fsync`, `off`).
    pub fn start(options: &[(&str, &str)]) -> Self {
        let dir = tempfile::Builder::new().prefix("threadline-pg").tempdir().expect("temp dir");
        if let Some((uid, gid)) = user() {
            chown(dir.path(), Some(uid), Some(gid)).expect("gives the directory away");
        }
        let data = dir.path().join("data");
        let made = command(program("initdb"), dir.path())
            .args(["-N", "--wal-segsize=1", "-E", "UTF8", "--locale=C", "-A", "trust", "-U", "postgres", "-D"])
            .arg(&data)
            .output()
            .expect("initdb runs");
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let mut server = Self { dir, port: free_port(), options, keeper: None, databases: AtomicU64::new(0) };
        server.launch();
        server
    }

    /// The one of this test process.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Postgres> = OnceLock::new();
        // Never dropped: its keeper ends it when this process is gone, and removes its directory.
        SHARED.get_or_init(|| Self::start(&[]))
    }

    /// The URL of a database.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// A new, empty database; its URL.
    pub fn fresh_database(&self) -> String {
        let name = format!("t{}", self.databases.fetch_add(1, Ordering::SeqCst));
        self.sql("postgres", &format!("CREATE DATABASE {name}"));
        self.url(&name)
    }

    /// Runs SQL in a database; its output, fields separated by `|`.
    fn sql(&self, database: &str, text: &str) -> String {
        let output = self.psql(&["-d", database, "-c", text]).output().expect("psql runs");
        assert!(output.status.success(), "{text}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn psql(&self, arguments: &[&str]) -> Command {
        let mut psql = command(program("psql"), self.dir.path());
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-U", "postgres", "-p"])
            .arg(self.port.to_string())
            .args(arguments);
        psql
    }

    fn launch(&mut self) {
        let log = self.dir.path().join("log");
        let deadline = Instant::now() + PATIENCE;
        loop {
            // The shell ends the server when its standard input ends: with this process.
            let script = "\"$@\" >>\"$LOG\" 2>&1 & pid=$!; echo $pid >server.pid; read -r _; \
                          kill -QUIT $pid 2>/dev/null; wait $pid; [ -z \"$KEEP\" ] || rm -rf \"$KEEP\"";
            let mut keeper = command("/bin/sh", self.dir.path());
            keeper.env("LOG", &log).env("KEEP", self.dir.path()).args(["-c", script, "sh"]).arg(program("postgres"));
            keeper.arg("-D").arg(self.dir.path().join("data")).arg("-p").arg(self.port.to_string());
            let sockets = format!("unix_socket_directories={}", self.dir.path().display());
            for setting in ["listen_addresses=127.0.0.1", sockets.as_str(), "max_connections=200"] {
                keeper.arg("-c").arg(setting);
            }
            for (name, value) in &self.options {
                keeper.arg("-c").arg(format!("{name}={value}"));
            }
            self.keeper =
                Some(keeper.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("sh"));
            if self.is_ready(deadline) {
                return;
            }
            // A server that was killed leaves its children for a moment, and these the directory.
            let text = fs::read_to_string(&log).unwrap_or_default();
            assert!(Instant::now() < deadline, "PostgreSQL does not start:\n{text}");
            self.kill();
        }
    }

    fn pid(&self) -> Option<Pid> {
        let text = fs::read_to_string(self.dir.path().join("server.pid")).ok()?;
        text.trim().parse().ok().map(Pid::from_raw)
    }

    fn is_ready(&mut self, deadline: Instant) -> bool {
        while Instant::now() < deadline {
            if self.psql(&["-d", "postgres", "-c", "SELECT 1"]).output().is_ok_and(|output| output.status.success()) {
                return true;
            }
            if self.pid().is_some_and(|pid| kill(pid, None).is_err()) {
                return false;
            }
            thread::sleep(Duration::from_millis(20));
        }
        false
    }

    /// As a crash: SIGKILL of the server. Its data stay.
    pub fn kill(&mut self) {
        let Some(mut keeper) = self.keeper.take() else { return };
        // First the keeper, so that it does not clear away what is to be started again.
        kill(Pid::from_raw(keeper.id() as i32), Signal::SIGKILL).expect("kills");
        let ended = keeper.wait().expect("waits");
        assert_eq!(ended.signal(), Some(Signal::SIGKILL as i32));
        if let Some(pid) = self.pid() {
            let _ = kill(pid, Signal::SIGKILL);
            let deadline = Instant::now() + PATIENCE;
            while kill(pid, None).is_ok() && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(5));
            }
        }
        let _ = fs::remove_file(self.dir.path().join("server.pid"));
    }

    /// Starts a killed server again.
    pub fn restart(&mut self) {
        self.kill();
        self.launch();
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if let Some(mut keeper) = self.keeper.take() {
            if let Some(mut input) = keeper.stdin.take() {
                let _ = input.write_all(b"\n");
            }
            let _ = keeper.wait();
        }
    }
}
