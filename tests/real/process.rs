//! The programs that take part, each in a process of its own that ends with its test.

use std::{
    io::{BufRead, BufReader, Read, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};

/// How long anything may take that should take seconds.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A started process. Dropping it ends it and what it has started.
pub struct Process {
    child: Child,
    name: &'static str,
    output: Arc<Mutex<String>>,
}

impl Process {
    pub fn start(name: &'static str, mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
        let output = Arc::new(Mutex::new(String::new()));
        listen(child.stdout.take().expect("piped"), output.clone());
        listen(child.stderr.take().expect("piped"), output.clone());
        Self { child, name, output }
    }

    /// All that it printed.
    pub fn said(&self) -> String {
        self.output.lock().expect("not poisoned").clone()
    }

    /// Waits until it has printed this, and gives what follows up to a space.
    pub fn printed(&mut self, what: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let said = self.said();
            if let Some((_, rest)) = said.split_once(what)
                && let Some((word, _)) = rest.split_once(char::is_whitespace)
            {
                return word.to_owned();
            }
            let ended = self.child.try_wait().expect("a child");
            assert!(ended.is_none() && Instant::now() < deadline, "{} never said {what:?}: {ended:?}", self.name);
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// SIGKILL, and gone for sure.
    pub fn kill(&mut self) {
        if self.child.try_wait().expect("a child").is_none() {
            let _ = killpg(Pid::from_raw(self.child.id() as i32), Signal::SIGKILL);
            let _ = self.child.wait();
        }
    }

    /// Waits for its end; all that it printed is there then.
    pub fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                // The readers hold it until the pipes are at their end.
                while Arc::strong_count(&self.output) > 1 && Instant::now() < deadline {
                    thread::sleep(Duration::from_millis(5));
                }
                return status;
            }
            assert!(Instant::now() < deadline, "{} does not come to an end", self.name);
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if thread::panicking() {
            println!("{} said:\n{}", self.name, self.said());
        }
    }
}

fn listen(from: impl Read + Send + 'static, output: Arc<Mutex<String>>) {
    thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            let mut output = output.lock().expect("not poisoned");
            output.push_str(&line);
            output.push('\n');
        }
    });
}

/// A path in the repository.
pub fn path(relative: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(relative)
}

pub fn made(relative: &str) -> PathBuf {
    let path = path(relative);
    assert!(path.exists(), "{relative} is missing: `make setup-test` makes it");
    path
}

/// A Python of the examples, about to run one of them.
pub fn python(script: &str) -> Command {
    python_of("example-venv", script)
}

/// The Python of an environment, about to run a script.
pub fn python_of(venv: &str, script: &str) -> Command {
    made(&format!("target/{venv}/installed.txt"));
    let mut command = Command::new(path(&format!("target/{venv}/bin/python")));
    command.arg("-u").arg(path(script)).env_remove("THREADLINE_API_KEY").env_remove("THREADLINE_USER");
    command
}

/// Node, with the AG-UI client.
pub fn node() -> Command {
    made("tests/real/node/node_modules/@ag-ui/client");
    let version = Command::new("node").arg("--version").output();
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let major = version.trim_start_matches('v').split('.').next().and_then(|major| major.parse::<u32>().ok());
    assert!(major >= Some(20), "Node >= 20 is missing (found {version:?}): `make setup-test` installs it");
    let mut command = Command::new("node");
    command.current_dir(path("tests/real/node"));
    command
}

/// The trip agent under uvicorn, and its address. `pace` is milliseconds for a token.
pub fn agent(pace: u32) -> (Process, String) {
    let mut command = python("examples/pydantic-ai/serve.py");
    command.args(["--port", "0", "--pace", &pace.to_string()]);
    let mut process = Process::start("the agent", command);
    let address = process.printed("running on ");
    (process, format!("{address}/"))
}

/// Threadline on a port, which has the agent as `trips`.
pub fn threadline(data: &Path, port: u16, agent: Option<&str>) -> (Process, String) {
    threadline_with(&["--data", data.to_str().expect("text")], port, agent)
}

/// Threadline on a port, with a store that these arguments name.
pub fn threadline_with(store: &[&str], port: u16, agent: Option<&str>) -> (Process, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_threadline"));
    command.args(["dev", "--listen", &format!("127.0.0.1:{port}")]).args(store);
    command.args(agent.map(|url| format!("--agent=trips={url}")));
    for name in ["API_KEY", "DEVELOPMENT", "USER", "LISTEN", "DATA", "CONFIG", "URL"] {
        command.env_remove(format!("THREADLINE_{name}"));
    }
    command.env("NO_COLOR", "1");
    let mut process = Process::start("the server", command);
    let url = process.printed("listening on ");
    (process, url)
}

/// Port to which a server comes back after a kill, given to one test only.
pub fn port() -> u16 {
    threadline_backing::ports::free_port()
}

/// What a program answers that is given all of its input at once.
pub fn ask(mut command: Command, input: &str) -> String {
    let name = format!("{command:?}");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot run {name}: {error}"));
    let mut stdin = child.stdin.take().expect("piped");
    let input = input.to_owned();
    let writer = thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().expect("a child");
    writer.join().expect("a thread").expect("written");
    assert!(output.status.success(), "{name} failed");
    String::from_utf8(output.stdout).expect("text")
}
