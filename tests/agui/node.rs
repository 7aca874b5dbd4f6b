//! Runs cases through the program of a client, all of them in one process.

use std::{
    io::{BufRead, BufReader, BufWriter, Write},
    path::Path,
    process::{Command, Stdio},
};

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::compare::{Json, json};

/// Which client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Client {
    /// 1.0.0
    New,
    /// 0.0.59
    Old,
    /// The fold of our own package for TypeScript.
    TypeScript,
    /// The fold of our own package for Python.
    Python,
}

impl Client {
    /// The program that folds: a case a line on its standard input, an outcome a line on its standard output.
    fn program(self) -> Command {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/agui");
        let is_built = || here.join("../../sdk/typescript/dist/conversation/index.js").exists();
        let argument = match self {
            Self::Python => {
                // The package needs an HTTP client, although its fold does not.
                let python = here.join("../../target/agui-venv/bin/python");
                assert!(python.exists(), "the packages for Python are missing: `make setup-test` installs them");
                let mut python = Command::new(python);
                python.args(["-m", "threadline._fold"]).env("PYTHONPATH", here.join("../../sdk/python/src"));
                return python;
            }
            Self::TypeScript => {
                assert!(is_built(), "the TypeScript package is not built: `make setup-test` builds it");
                Some("threadline")
            }
            Self::New => None,
            Self::Old => Some("old"),
        };
        let is_installed = here.join("node_modules/.package-lock.json").exists();
        assert!(is_installed, "the AG-UI client is missing: `make setup-test` installs it");
        let mut node = Command::new("node");
        node.arg("fold.mjs").args(argument).current_dir(here);
        node
    }
}

/// What the client made of a case.
#[derive(Debug, Clone)]
pub struct Outcome {
    pub messages: Json,
    pub state: Json,
    pub interrupts: Json,
    /// Why it refused an event.
    pub error: Option<String>,
    /// The events before that one, in the run that it ended.
    pub seen: usize,
    /// Messages and state after each event, from the number of events that the case names.
    pub cuts: Vec<(Json, Json)>,
    /// Tool calls without a result, and the number of deltas that could not be applied; of our packages alone.
    pub pending: Vec<String>,
    pub skipped: u64,
    /// Number of numbers that could not be read; of our packages alone.
    pub skipped_numbers: u64,
    /// Messages and state as they were written, with numbers that a double does not hold.
    pub written: [String; 2],
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    messages: &'a RawValue,
    #[serde(borrow)]
    state: &'a RawValue,
    #[serde(borrow)]
    interrupts: &'a RawValue,
    error: Option<String>,
    seen: usize,
    #[serde(default)]
    cuts: Vec<(String, String)>,
    #[serde(default)]
    pending: Vec<String>,
    #[serde(default)]
    skipped: u64,
    #[serde(default, rename = "skippedNumbers")]
    skipped_numbers: u64,
}

/// Folds every case, a list of events as JSON text.
pub fn fold(client: Client, cases: &[Vec<String>]) -> Vec<Outcome> {
    let lines: Vec<_> = cases.iter().map(|case| format!("{{\"events\":[{}]}}", case.join(","))).collect();
    outcomes(client, &lines)
}

/// The same with the whole case as JSON text.
pub fn outcomes(client: Client, cases: &[String]) -> Vec<Outcome> {
    lines_of(client.program(), cases).iter().map(|line| outcome(line)).collect()
}

/// Runs a program that answers each line with one line.
pub fn lines_of(mut program: Command, lines: &[String]) -> Vec<String> {
    program.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child =
        program.spawn().unwrap_or_else(|error| panic!("{program:?}: {error}; `make setup-test` installs it"));
    let (stdin, stdout) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
    let answers: Vec<String> = std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut stdin = BufWriter::new(stdin);
            for line in lines {
                writeln!(stdin, "{line}").expect("the program reads");
            }
        });
        BufReader::new(stdout).lines().map(|line| line.expect("a line")).collect()
    });
    assert!(child.wait().expect("the program ends").success(), "{program:?} failed");
    assert_eq!(answers.len(), lines.len(), "a line for each line");
    answers
}

fn outcome(line: &str) -> Outcome {
    let line: Line<'_> = serde_json::from_str(line).expect("an outcome");
    Outcome {
        messages: json(line.messages.get()),
        state: json(line.state.get()),
        interrupts: json(line.interrupts.get()),
        error: line.error,
        seen: line.seen,
        cuts: line.cuts.iter().map(|(messages, state)| (json(messages), json(state))).collect(),
        pending: line.pending,
        skipped: line.skipped,
        skipped_numbers: line.skipped_numbers,
        written: [line.messages, line.state].map(|value| value.get().to_owned()),
    }
}
