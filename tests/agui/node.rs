//! Runs cases through `fold.mjs`, all of them in one process.

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
    Package,
}

impl Client {
    fn argument(self) -> Option<&'static str> {
        match self {
            Self::New => None,
            Self::Old => Some("old"),
            Self::Package => Some("threadline"),
        }
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
    /// Of our package: the tool calls without a result, and how many deltas it could not apply.
    pub pending: Vec<String>,
    pub skipped: u64,
    /// Of our package: the numbers that it could not read.
    pub skipped_numbers: u64,
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
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/agui");
    assert!(
        here.join("node_modules/.package-lock.json").exists(),
        "the AG-UI client is missing: `make setup-test` installs it"
    );
    assert!(
        client != Client::Package || here.join("../../sdk/typescript/dist/conversation/index.js").exists(),
        "the TypeScript package is not built: `make setup-test` builds it"
    );
    let mut node = Command::new("node")
        .arg("fold.mjs")
        .args(client.argument())
        .current_dir(here)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("node is missing: `make setup-test` installs it");
    let (stdin, stdout) = (node.stdin.take().expect("piped"), node.stdout.take().expect("piped"));
    let outcomes: Vec<Outcome> = std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut stdin = BufWriter::new(stdin);
            for case in cases {
                writeln!(stdin, "{case}").expect("node reads");
            }
        });
        BufReader::new(stdout).lines().map(|line| outcome(&line.expect("a line"))).collect()
    });
    assert!(node.wait().expect("node ends").success(), "fold.mjs failed");
    assert_eq!(outcomes.len(), cases.len(), "a line for each case");
    outcomes
}

fn outcome(line: &str) -> Outcome {
    let line: Line<'_> = serde_json::from_str(line).expect("what fold.mjs writes");
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
    }
}
