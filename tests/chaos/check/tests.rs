//! The negative control: histories with one thing wrong each, which the checker must see, and see as what it is.

mod losses;
mod queue;

use super::{Entry, Found, Log, check};
use crate::history::{Class, Fault, Kind, Line, Loss, Micros, Outcome, Request, What, digest, payload};
use threadline_client::{Run, RunStatus};

const T0: Micros = 1_795_000_000_000_000;
const MS: Micros = 1_000;

fn iso(at: Micros) -> String {
    jiff::Timestamp::from_microsecond(at as i64).expect("a time").to_string()
}

/// A thread with two runs: `a` was acknowledged up to its end, `b` fell silent and was closed.
#[derive(Clone)]
struct World {
    lines: Vec<Line>,
    log: Log,
}

fn request(at: Micros, run: &str, what: What, outcome: Outcome) -> Line {
    let (at, thread, run) = (T0 + at * MS, "t".to_owned(), run.to_owned());
    Line::Request(Request { at, done: at + 5 * MS, node: 0, thread, run, what, outcome })
}

fn append(at: Micros, run: &str, from: u64, count: u64, terminal: bool, outcome: Outcome) -> Line {
    request(at, run, What::Append { from, count, terminal }, outcome)
}

fn done(first: u64) -> Outcome {
    Outcome::Done { first, ended: false, epoch: Some("e".to_owned()) }
}

fn refused(slug: &str) -> Outcome {
    Outcome::Refused { slug: slug.to_owned(), active: Some("a".to_owned()) }
}

fn record(run: &str, first: u64, count: u64, began: Micros, ended: Micros, code: Option<&str>) -> Run {
    Run {
        run_id: run.to_owned(),
        thread_id: None,
        agent_id: None,
        author: None,
        asked_by: None,
        attempt: 1,
        driven: false,
        status: if code.is_some() { RunStatus::Error } else { RunStatus::Finished },
        error_code: code.map(str::to_owned),
        error_message: None,
        usage: None,
        first_seq: first,
        last_seq: first + count - 1,
        producer_seq: count,
        started_at: iso(T0 + began * MS),
        ended_at: Some(iso(T0 + ended * MS)),
        lease_until: None,
        stop_requested: false,
    }
}

fn of(entry: &Entry) -> u32 {
    digest(&entry.run, entry.payload.as_bytes())
}

/// Without what was read yet.
fn read(first: u64, last: u64) -> Line {
    let (reader, thread) = ("r".to_owned(), "t".to_owned());
    Line::Read { at: T0 + 6_002 * MS, reader, thread, first, digests: vec![0; (last + 1 - first) as usize] }
}

impl World {
    fn new() -> Self {
        let mut log = Log { epoch: "e".to_owned(), ..Log::default() };
        let mut put = |run: &str, at: Micros, payload: String| {
            log.entries.push(Entry { run: run.to_owned(), at: T0 + at * MS, payload });
        };
        for number in 1..=6 {
            put("a", if number <= 3 { 12 } else { 22 }, payload("a", number, number == 6));
        }
        for number in 1..=4 {
            put("b", 110, payload("b", number, false));
        }
        put("b", 3_600, r#"{"type":"RUN_ERROR","code":"lease-expired"}"#.to_owned());
        log.tail = 11;
        log.runs.insert("a".to_owned(), record("a", 1, 6, 1, 22, None));
        log.runs.insert("b".to_owned(), record("b", 7, 5, 101, 3_600, Some("lease-expired")));
        let mut lines = vec![
            request(0, "a", What::Start { lease: 3 }, done(0)),
            append(10, "a", 1, 3, false, done(1)),
            append(20, "a", 4, 3, true, Outcome::Unknown),
            append(30, "a", 4, 3, true, done(4)),
            request(10, "b", What::Start { lease: 3 }, refused("run-active")),
            request(100, "b", What::Start { lease: 3 }, done(0)),
            append(110, "b", 1, 4, false, done(7)),
        ];
        let reader = || "r".to_owned();
        let joined = |after| Line::Joined {
            asked: T0 + 6_000 * MS,
            at: T0 + 6_001 * MS,
            reader: reader(),
            thread: "t".to_owned(),
            after,
            epoch: "e".to_owned(),
            tail: after,
        };
        lines.push(joined(0));
        lines.extend([read(1, 3), read(4, 7), joined(7), read(8, 11)]);
        lines.push(Line::Stood { reader: reader(), thread: "t".to_owned(), cursor: 11 });
        let mut world = Self { lines, log };
        world.see();
        world
    }

    /// The reader sees the log as it is now.
    fn see(&mut self) {
        for line in &mut self.lines {
            if let Line::Read { first, digests, .. } = line {
                let entries = self.log.entries.iter().skip(*first as usize - 1);
                digests.iter_mut().zip(entries).for_each(|(known, entry)| *known = of(entry));
            }
        }
    }

    fn found(&self) -> Found {
        let lines: Vec<Line> = self
            .lines
            .iter()
            .map(|line| {
                // As it is read from a file.
                serde_json::from_str(&serde_json::to_string(line).expect("JSON")).expect("JSON")
            })
            .collect();
        check(&lines, |_| Some(self.log.clone()))
    }

    fn read(&mut self, number: usize) -> &mut Line {
        self.lines.iter_mut().filter(|line| matches!(line, Line::Read { .. })).nth(number).expect("a read")
    }
}

/// The change is seen as a breach of this kind.
#[track_caller]
fn sees(class: Class, change: impl FnOnce(&mut World)) {
    let mut world = World::new();
    change(&mut world);
    let found = world.found();
    assert!(found.count(class) > 0, "not seen as {class:?}:\n{found}");
}

/// The change breaks nothing.
#[track_caller]
fn allows(change: impl FnOnce(&mut World)) {
    let mut world = World::new();
    change(&mut world);
    let found = world.found();
    assert!(found.is_clean(), "{found}");
}

fn cut(world: &mut World, left: usize) {
    world.log.entries.drain(left..10);
    world.log.tail = world.log.entries.len() as u64;
    let count = world.log.tail - 6;
    world.log.runs.insert("b".to_owned(), record("b", 7, count, 101, 3_600, Some("lease-expired")));
    world.lines.retain(|line| !matches!(line, Line::Read { .. } | Line::Stood { .. } | Line::Joined { .. }));
}

#[test]
fn a_clean_history_is_clean_and_counted() {
    let mut world = World::new();
    let fault = |kind, begin, end| {
        Line::Fault(Fault {
            kind,
            node: None,
            begin: T0 + begin * MS,
            end: T0 + end * MS,
            note: String::new(),
            loss: None,
        })
    };
    world.lines.extend([
        fault(Kind::KillPostgres, 21, 40),
        fault(Kind::Flushall, 500, 500),
        fault(Kind::KillNode, 105, 106),
    ]);
    let found = world.found();
    assert!(found.is_clean(), "{found}");
    assert_eq!(
        found.last_line(),
        "faults 3, acknowledged 10, lost 0, duplicated 0, interleaved 0, unfinished 0, in loss windows 0, \
         slowest recovery 14 ms"
    );
    assert_eq!((found.started, found.ended, found.conflicts, found.deliveries), (2, 2, 1, 11));
    let text = found.to_string();
    assert!(text.contains("kill-postgres") && text.contains("100.0 %"), "{text}");
}

#[test]
fn the_checker_finds_lost_events() {
    sees(Class::Lost, |world| cut(world, 8));
    sees(Class::Lost, |world| {
        // A batch whose answer is unknown, torn.
        cut(world, 8);
        world.lines.pop();
        world.lines.push(append(110, "b", 1, 4, false, Outcome::Unknown));
    });
    sees(Class::Lost, |world| {
        world.log.entries[1].payload = world.log.entries[1].payload.replace("CUSTOM", "CUSTOm");
        world.see();
    });
    sees(Class::Lost, |world| drop(world.log.runs.remove("b")));
    sees(Class::Lost, |world| world.log.epoch = "other".to_owned());
    // Readers.
    sees(Class::Lost, |world| {
        *world.read(1) = read(5, 7);
    });
    sees(Class::Lost, |world| world.lines.push(read(12, 12)));
    let found = check(&World::new().lines, |_| None);
    assert!(found.count(Class::Lost) > 0);
}

#[test]
fn the_checker_finds_duplicates() {
    sees(Class::Duplicated, |world| {
        let again = world.log.entries[7].clone();
        world.log.entries.insert(9, again);
        world.log.tail += 1;
    });
    sees(Class::Duplicated, |world| {
        // Refused, and there.
        let last = world.lines.iter().position(
            |line| matches!(line, Line::Request(request) if request.run == "b" && request.at == T0 + 110 * MS),
        );
        world.lines[last.expect("an append")] = append(110, "b", 1, 4, false, refused("run-fenced"));
    });
    sees(Class::Duplicated, |world| {
        world.lines.retain(|line| !matches!(line, Line::Request(request) if request.run == "b" && matches!(request.outcome, Outcome::Done { .. })));
    });
    sees(Class::Duplicated, |world| {
        *world.read(1) = read(3, 7);
    });
    sees(Class::Duplicated, |world| {
        world.lines.retain(|line| !matches!(line, Line::Request(request) if request.run == "b"));
    });
}

#[test]
fn runs_that_mix_are_seen() {
    sees(Class::Interleaved, |world| world.log.entries.swap(4, 7));
    sees(Class::Interleaved, |world| {
        // Late, after the terminal event of its own run.
        let late = world.log.entries.remove(3);
        world.log.entries.insert(5, late);
    });
    sees(Class::Interleaved, |world| {
        world.log.entries[8].payload = payload("a", 3, false);
        world.see();
    });
    // Other bytes than the log has: a reader saw another order.
    sees(Class::Interleaved, |world| world.log.entries.swap(0, 1));
    sees(Class::Interleaved, |world| {
        // Acknowledged before the other one was sent, but stored after it.
        world.lines.push(append(1, "b", 1, 4, false, done(7)));
    });
    sees(Class::Interleaved, |world| world.lines.push(append(40, "a", 4, 3, true, done(5))));
    // A 409 for a run that had ended, or was never there.
    sees(Class::Interleaved, |world| {
        world.lines.push(request(9_000, "c", What::Start { lease: 3 }, refused("run-active")))
    });
    sees(Class::Interleaved, |world| {
        let outcome = Outcome::Refused { slug: "run-active".into(), active: Some("ghost".into()) };
        world.lines.push(request(50, "c", What::Start { lease: 3 }, outcome));
    });
    // Ended for silence though its producer was heard.
    sees(Class::Interleaved, |world| world.lines.push(request(900, "b", What::Beat, done(0))));
    allows(|world| world.lines.push(request(500, "b", What::Beat, done(0))));
}

#[test]
fn the_checker_finds_runs_that_do_not_end() {
    sees(Class::Unfinished, |world| {
        world.log.entries.pop();
        world.log.tail -= 1;
    });
    sees(Class::Unfinished, |world| world.log.runs.get_mut("b").expect("a run").status = RunStatus::Running);
    // Reaped 3 s of lease, 5 s and a bit after it was last heard of; or so much later as there was no store.
    let late = |world: &mut World| {
        world.log.entries[10].at = T0 + 8_200 * MS;
        world.log.runs.insert("b".to_owned(), record("b", 7, 5, 101, 8_200, Some("lease-expired")));
    };
    sees(Class::Unfinished, late);
    let away = |kind| {
        Line::Fault(Fault {
            kind,
            node: None,
            begin: T0 + 1_000 * MS,
            end: T0 + 3_000 * MS,
            note: String::new(),
            loss: None,
        })
    };
    allows(|world| {
        late(world);
        world.lines.push(away(Kind::KillPostgres));
    });
    sees(Class::Unfinished, |world| {
        late(world);
        world.lines.push(away(Kind::KillNode));
    });
    sees(Class::Unfinished, |world| {
        world.lines.pop();
        world.lines.push(Line::Stood { reader: "r".into(), thread: "t".into(), cursor: 10 });
    });
    sees(Class::Unfinished, |world| {
        world.lines.push(Line::Wrong { class: Class::Unfinished, what: "a node ended by itself".into() })
    });
}

#[test]
fn a_node_that_is_ready_has_committed_something() {
    let stop = |begin, end| {
        let (kind, begin, end) = (Kind::StopPostgres, T0 + begin * MS, T0 + end * MS);
        Line::Fault(Fault { kind, node: None, begin, end, note: String::new(), loss: None })
    };
    let ready = |at| Line::Ready { at: T0 + at * MS, done: T0 + (at + 1) * MS, node: 1 };
    sees(Class::Lost, |world| world.lines.extend([stop(20_000, 29_000), ready(27_500)]));
    allows(|world| world.lines.extend([stop(20_000, 29_000), ready(24_900), ready(29_100)]));
    allows(|world| world.lines.extend([stop(20_000, 24_000), ready(23_000), ready(27_500)]));
}

/// A call of the agent of run `d`, and an effect of it.
fn called(at: Micros, attempt: u64, recovery: &str) -> Line {
    let (at, thread, run) = (T0 + at * MS, "t".to_owned(), "d".to_owned());
    Line::Called { at, thread, run, attempt, recovery: recovery.to_owned() }
}

fn acted(at: Micros) -> Line {
    Line::Effect { at: T0 + at * MS, thread: "t".to_owned(), run: "d".to_owned(), call: "c".to_owned() }
}

#[test]
fn calls_and_effects_that_are_repeated_are_seen() {
    allows(|world| world.lines.extend([called(100, 1, "retry"), acted(120), called(200, 2, "retry")]));
    allows(|world| world.lines.extend([called(100, 1, "none"), acted(120)]));
    sees(Class::Duplicated, |world| world.lines.extend([called(100, 1, "retry"), called(200, 1, "retry")]));
    sees(Class::Duplicated, |world| world.lines.extend([called(100, 0, "retry")]));
    sees(Class::Duplicated, |world| world.lines.extend([called(100, 1, "none"), called(200, 2, "none")]));
    for recovery in ["retry", "continue"] {
        let twice = [called(100, 1, recovery), acted(120), called(200, 2, recovery), acted(220)];
        sees(Class::Duplicated, |world| world.lines.extend(twice));
    }
}

#[test]
fn an_append_of_unknown_outcome_is_complete_or_absent() {
    allows(|world| world.lines.push(append(200, "b", 5, 2, false, Outcome::Unknown)));
    allows(|world| world.lines.push(append(200, "b", 5, 2, false, Outcome::Dropped)));
    allows(|world| world.lines.push(append(4_000, "b", 5, 2, false, refused("run-fenced"))));
    allows(|world| {
        world.lines.pop();
        let last = world.lines.iter().position(
            |line| matches!(line, Line::Request(request) if request.run == "b" && request.at == T0 + 110 * MS),
        );
        world.lines[last.expect("an append")] = append(110, "b", 1, 4, false, Outcome::Unknown);
    });
    // A streamed run may be cut anywhere.
    allows(|world| {
        let streamed = What::Stream { from: 1, count: 9, terminal: false, lease: 3 };
        world.lines.retain(|line| !matches!(line, Line::Request(request) if request.run == "b"));
        world.lines.push(request(100, "b", streamed, Outcome::Unknown));
    });
}
