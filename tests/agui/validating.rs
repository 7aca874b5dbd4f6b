//! Validation refuses what the real client refuses, at the same event: generated runs, and runs with seeded damage.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, BufWriter, Write},
    path::Path,
    process::{Command, Stdio},
};

use serde::Deserialize;
use serde_json::value::RawValue;
use threadline_core::{json, projection::validating::Validation};

use crate::{
    generate::stream,
    rng::{Rng, seed},
};

const STREAMS: u64 = 48;
const DAMAGED: u64 = 10;

/// Cases in which the verdicts differ, each with its reason: the events, and the index that each refuses.
struct Difference {
    name: &'static str,
    reason: &'static str,
    events: &'static [&'static str],
    ours: Option<usize>,
    theirs: Option<usize>,
}

const STARTED: &str = r#"{"type":"RUN_STARTED","threadId":"t","runId":"r"}"#;
const FINISHED: &str = r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r"}"#;
const FAILED: &str = r#"{"type":"RUN_ERROR","message":"no"}"#;

const DIFFERENCES: [Difference; 6] = [
    Difference {
        name: "a run that begins with RUN_ERROR",
        reason: "readers learn from RUN_STARTED what a run was asked",
        events: &[FAILED],
        ours: Some(0),
        theirs: None,
    },
    Difference {
        name: "RUN_ERROR after RUN_FINISHED",
        reason: "a run has one end, which frees its thread",
        events: &[STARTED, FINISHED, FAILED],
        ours: Some(2),
        theirs: None,
    },
    Difference {
        name: "a second run in one stream",
        reason: "the log has runs one after the other, and each is validated by itself",
        events: &[STARTED, FINISHED, STARTED],
        ours: Some(2),
        theirs: None,
    },
    Difference {
        name: "THINKING events",
        reason: "AG-UI 1.0 does not have them: the client translates them for agents of earlier releases",
        events: &[STARTED, r#"{"type":"THINKING_START"}"#, r#"{"type":"THINKING_END"}"#],
        ours: Some(1),
        theirs: None,
    },
    Difference {
        name: "binary parts of messages",
        reason: "AG-UI 1.0 does not have them: the client translates them for agents of earlier releases",
        events: &[
            STARTED,
            r#"{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"u","role":"user","content":[{"type":"binary","mimeType":"image/png","data":"eA=="}]}]}"#,
        ],
        ours: Some(1),
        theirs: None,
    },
    Difference {
        name: "a member that occurs twice",
        reason: "readers differ in which one counts, so each is checked",
        events: &[STARTED, r#"{"type":"CUSTOM","name":1,"name":"n","value":1}"#],
        ours: Some(1),
        theirs: None,
    },
];

/// The difference that explains other verdicts on a generated case.
fn explained(events: &[String], ours: Option<usize>) -> Option<&'static str> {
    let is = |index: usize, kind: &str| json::string_member(&events[index], "type").as_deref() == Some(kind);
    let at = ours?;
    if at == 0 && is(0, "RUN_ERROR") {
        return Some(DIFFERENCES[0].name);
    }
    let ended = (0..at).any(|index| is(index, "RUN_FINISHED") || is(index, "RUN_ERROR"));
    match ended {
        true if is(at, "RUN_ERROR") => Some(DIFFERENCES[1].name),
        true if is(at, "RUN_STARTED") => Some(DIFFERENCES[2].name),
        _ => None,
    }
}

/// The first event that our validation refuses, and why.
fn ours(events: &[String]) -> (Option<usize>, String) {
    let mut validation = Validation::default();
    let refused = events.iter().enumerate().find_map(|(index, event)| Some((index, validation.check(event).err()?)));
    refused.map_or((None, String::new()), |(index, flaw)| (Some(index), flaw.to_string()))
}

#[derive(Debug, Deserialize)]
struct Verdict {
    index: Option<usize>,
    reason: Option<String>,
}

/// The first event of each case that the client refuses.
fn theirs(cases: &[Vec<String>]) -> Vec<Verdict> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/agui");
    let installed = here.join("node_modules/.package-lock.json").exists();
    assert!(installed, "the AG-UI client is missing: `make setup-test` installs it");
    let mut command = Command::new("node");
    command.arg("verify.mjs").current_dir(here).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut node = command.spawn().expect("node is missing: `make setup-test` installs it");
    let (stdin, stdout) = (node.stdin.take().expect("piped"), node.stdout.take().expect("piped"));
    let verdicts: Vec<Verdict> = std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut stdin = BufWriter::new(stdin);
            for case in cases {
                writeln!(stdin, "[{}]", case.join(",")).expect("node reads");
            }
        });
        let lines = BufReader::new(stdout).lines();
        lines.map(|line| serde_json::from_str(&line.expect("a line")).expect("what verify.mjs writes")).collect()
    });
    assert!(node.wait().expect("node ends").success(), "verify.mjs failed");
    assert_eq!(verdicts.len(), cases.len(), "a line for each case");
    verdicts
}

/// Runs of a stream.
fn runs(events: Vec<String>) -> Vec<Vec<String>> {
    let mut runs: Vec<Vec<String>> = Vec::new();
    for event in events {
        if json::string_member(&event, "type").as_deref() == Some("RUN_STARTED") {
            runs.push(Vec::new());
        }
        runs.last_mut().expect("a run").push(event);
    }
    runs
}

/// A value of any kind.
fn other(rng: &mut Rng) -> &'static str {
    const VALUES: [&str; 9] = ["null", "7", "-1.5", "true", "\"x\"", "\"/a~2\"", "[]", "[null]", "{}"];
    VALUES[rng.draw() as usize % VALUES.len()]
}

/// The value with something in it removed, or replaced by a value of another kind.
fn spoiled(rng: &mut Rng, value: &str) -> String {
    let inner = |rng: &mut Rng, value: &str| {
        let deep = value.starts_with(['{', '[']) && rng.chance(70);
        if deep { spoiled(rng, value) } else { other(rng).to_owned() }
    };
    if value.starts_with('{') {
        let mut members: Vec<(String, String)> =
            json::entries(value).map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        if members.is_empty() {
            return "{\"x\":1}".to_owned();
        }
        let at = rng.draw() as usize % members.len();
        if rng.chance(40) {
            members.remove(at);
        } else {
            members[at].1 = inner(rng, &members[at].1.clone());
        }
        let members: Vec<_> = members.iter().map(|(name, value)| format!("{name}:{value}")).collect();
        return format!("{{{}}}", members.join(","));
    }
    let items: Vec<&RawValue> = serde_json::from_str(value).unwrap_or_default();
    let mut items: Vec<String> = items.iter().map(|item| item.get().to_owned()).collect();
    if items.is_empty() {
        return format!("[{}]", other(rng));
    }
    let at = rng.draw() as usize % items.len();
    items[at] = inner(rng, &items[at].clone());
    format!("[{}]", items.join(","))
}

/// The run with one damage, and what it is.
fn damaged(rng: &mut Rng, run: &[String]) -> (&'static str, Vec<String>) {
    let mut events = run.to_vec();
    let at = rng.draw() as usize % events.len();
    let what = match rng.between(0, 7) {
        0 => {
            events.remove(at);
            "dropped"
        }
        1 => {
            events.insert(at, events[at].clone());
            "doubled"
        }
        2 => {
            let event = events.remove(at);
            events.insert(rng.draw() as usize % (events.len() + 1), event);
            "moved"
        }
        _ => {
            events[at] = spoiled(rng, &events[at].clone());
            "spoiled"
        }
    };
    (what, events)
}

#[test]
fn verdicts_are_those_of_the_client() {
    let seed = seed();
    let mut rng = Rng::new(seed, 77);
    let (mut cases, mut whats) = (Vec::new(), Vec::new());
    for number in 0..STREAMS {
        for run in runs(stream(seed, 9_000 + number)) {
            for _ in 0..DAMAGED {
                let (what, events) = damaged(&mut rng, &run);
                whats.push(what);
                cases.push(events);
            }
            whats.push("whole");
            cases.push(run);
        }
    }
    let (mut refused, mut differences) = (BTreeMap::new(), BTreeMap::new());
    let mut wrong = Vec::new();
    for ((what, case), theirs) in whats.iter().zip(&cases).zip(theirs(&cases)) {
        let (ours, flaw) = ours(case);
        let count: &mut (usize, usize) = refused.entry(*what).or_default();
        count.0 += usize::from(ours.is_some());
        count.1 += 1;
        if ours == theirs.index {
            continue;
        }
        match explained(case, ours) {
            Some(name) => *differences.entry(name).or_insert(0) += 1,
            None => {
                let at = ours.into_iter().chain(theirs.index).min().unwrap_or_default();
                wrong.push(format!(
                    "{what}: ours {ours:?} ({flaw}), theirs {:?} ({:?})\n{}",
                    theirs.index,
                    theirs.reason,
                    case[..=at].join("\n")
                ));
            }
        }
    }
    println!("refused of all: {refused:?}; differences: {differences:?}");
    assert!(wrong.is_empty(), "{} of {} cases, the first:\n{}", wrong.len(), cases.len(), wrong[0]);
    let whole = refused["whole"];
    assert!(whole.0 * 3 < whole.1, "most runs of the generator are ones that the client accepts: {refused:?}");
    for what in ["dropped", "doubled", "moved", "spoiled"] {
        assert!(refused[what].0 > refused[what].1 / 10, "damage is noticed: {refused:?}");
    }
}

#[test]
fn verdicts_differ_where_the_client_is_looser() {
    let cases: Vec<Vec<String>> =
        DIFFERENCES.iter().map(|case| case.events.iter().map(|event| (*event).to_owned()).collect()).collect();
    for ((difference, case), theirs) in DIFFERENCES.iter().zip(&cases).zip(theirs(&cases)) {
        let Difference { name, reason, .. } = difference;
        assert_eq!(ours(case).0, difference.ours, "{name}: {reason}");
        assert_eq!(theirs.index, difference.theirs, "{name}: {reason}");
    }
}
