//! Runs files of node:test cases, one after the other suite: they measure patience, and share two cores.

use std::{
    io::Read,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};

/// How long a suite may take that should take a minute.
const PATIENCE: Duration = Duration::from_secs(300);
const NODE: u32 = 20;
static TURN: Mutex<()> = Mutex::new(());

/// Cases, about to be run with one set of packages.
pub struct Suite {
    packages: &'static str,
    environment: Vec<(&'static str, String)>,
}

/// A started node:test. Dropping it ends it and all that it has started.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = killpg(Pid::from_raw(self.0.id() as i32), Signal::SIGKILL);
        let _ = self.0.wait();
    }
}

impl Suite {
    pub fn of(packages: &'static str) -> Self {
        let program = env!("CARGO_BIN_EXE_threadline").to_owned();
        Self { packages, environment: vec![("COPILOTKIT", packages.to_owned()), ("THREADLINE", program)] }
    }

    /// The transport of the runtime's runner.
    pub fn runner(mut self, transport: &str) -> Self {
        self.environment.push(("RUNNER", transport.to_owned()));
        self
    }

    /// What a client has in front of it: the runtime, or Threadline itself.
    pub fn via(mut self, via: &str) -> Self {
        self.environment.push(("VIA", via.to_owned()));
        self
    }

    /// How a client addresses its runtime.
    pub fn transport(mut self, transport: &str) -> Self {
        self.environment.push(("TRANSPORT", transport.to_owned()));
        self
    }

    /// With Chromium and the example's page.
    pub fn browser(self) -> Self {
        made("packages/browser/node_modules/.package-lock.json");
        made("../../examples/copilotkit/node_modules/.package-lock.json");
        self
    }

    /// Runs them. At least this many cases pass (a runner that finds none is content, too), and none fails.
    pub fn passes(self, cases: &[&str], least: u32) {
        let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        made(&format!("packages/{}/node_modules/.package-lock.json", self.packages));
        let mut command = node();
        command.current_dir(path("")).args(["--test", "--test-concurrency=1"]);
        command.arg(format!("--test-reporter={}", path("harness/reporter.mjs").display()));
        command.args(["--test-reporter-destination=stdout"]);
        command.args(cases.iter().map(|case| path(&format!("cases/{case}.test.mjs"))));
        for name in ["API_KEY", "API_KEY_FILE", "DEVELOPMENT", "USER", "LISTEN", "DATA", "CONFIG", "URL"] {
            command.env_remove(format!("THREADLINE_{name}"));
        }
        command.envs(self.environment);
        let (ended, said) = run(command);
        println!("{said}");
        let failed: Vec<_> = said.lines().filter_map(|line| line.strip_prefix("FAILED: ")).collect();
        assert!(failed.is_empty(), "with the packages {}: {failed:#?}", self.packages);
        assert!(ended, "it did not come to a good end; what it said is above");
        let passed = said.lines().find_map(|line| line.split_once(" passed, ")?.0.parse::<u32>().ok());
        assert!(passed >= Some(least), "only {passed:?} cases passed");
    }
}

/// Whether it ended well, in time, and what it said.
fn run(mut command: Command) -> (bool, String) {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut running = Running(command.spawn().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}")));
    let texts = [listen(running.0.stdout.take()), listen(running.0.stderr.take())];
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        let status = running.0.try_wait().expect("a child");
        if status.is_some() || Instant::now() > deadline {
            break status;
        }
        thread::sleep(Duration::from_millis(20));
    };
    drop(running);
    let said = texts.map(|text| text.join().expect("a thread")).concat();
    (status.is_some_and(|status| status.success()), said)
}

fn listen(from: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    let mut from = from.expect("piped");
    thread::spawn(move || {
        let mut said = Vec::new();
        let _ = from.read_to_end(&mut said);
        String::from_utf8_lossy(&said).into_owned()
    })
}

/// A path beside this file.
pub fn path(relative: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/copilotkit").join(relative)
}

fn made(relative: &str) {
    let path = path(relative);
    assert!(
        path.exists(),
        "{} is missing: `make setup-test` or `scripts/setup.sh copilotkit` makes it",
        path.display()
    );
}

fn node() -> Command {
    let version = Command::new("node").arg("--version").output();
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let major = version.trim_start_matches('v').split('.').next().and_then(|major| major.parse::<u32>().ok());
    assert!(major >= Some(NODE), "Node >= {NODE} is missing (found {version:?}): `make setup-test` installs it");
    Command::new("node")
}
