//! A failover that lost commits: what it excuses, and what not.

use super::*;

/// The standby lags from 7 s to 8 s. All nodes have adopted its history at 8.5 s.
fn failover() -> Line {
    let at = |at: Micros| T0 + at * MS;
    let loss = Some(Loss { since: at(7_000), until: at(8_000) });
    let (begin, end) = (at(7_000), at(8_500));
    Line::Fault(Fault { kind: Kind::PromoteStandby, node: None, begin, end, note: String::new(), loss })
}

fn names() -> (String, String) {
    ("r".to_owned(), "t".to_owned())
}

fn joined(asked: Micros, after: u64, epoch: &str) -> Line {
    let ((reader, thread), asked) = (names(), T0 + asked * MS);
    Line::Joined { asked, at: asked + MS, reader, thread, after, epoch: epoch.to_owned(), tail: after }
}

fn reads(at: Micros, first: u64, digests: Vec<u32>) -> Line {
    let (reader, thread) = names();
    Line::Read { at: T0 + at * MS, reader, thread, first, digests }
}

fn replaced(at: Micros, common: Option<u64>) -> Line {
    let (reader, thread) = names();
    Line::Replaced { at: T0 + at * MS, reader, thread, epoch: common.map(|_| "e".to_owned()), common }
}

fn rebased(at: Micros, after: u64) -> Line {
    let (reader, thread) = names();
    Line::Rebased { at: T0 + at * MS, reader, thread, from: "e".to_owned(), epoch: "f".to_owned(), after }
}

fn stood(cursor: u64) -> Line {
    let (reader, thread) = names();
    Line::Stood { reader, thread, cursor }
}

fn acknowledged(at: Micros, from: u64, count: u64, terminal: bool, first: u64, epoch: &str) -> Line {
    append(at, "c", from, count, terminal, Outcome::Done { first, ended: false, epoch: Some(epoch.to_owned()) })
}

fn bodies(run: &str, numbers: std::ops::RangeInclusive<u64>, last: u64) -> Vec<u32> {
    numbers.map(|number| digest(run, payload(run, number, number == last).as_bytes())).collect()
}

/// The failover loses run `c` with three events that the reader has seen. Its producer starts it again and sends all.
fn lossy() -> World {
    let mut world = World::new();
    world.lines.pop();
    world.lines.extend([
        failover(),
        request(7_050, "c", What::Start { lease: 3 }, done(0)),
        acknowledged(7_100, 1, 3, false, 12, "e"),
        reads(7_200, 12, bodies("c", 1..=3, 4)),
        append(8_600, "c", 4, 1, true, refused("run-not-found")),
        request(8_650, "c", What::Start { lease: 3 }, done(0)),
        acknowledged(8_700, 1, 3, false, 12, "f"),
        acknowledged(8_800, 4, 1, true, 15, "f"),
        replaced(8_600, Some(11)),
        joined(8_610, 11, "e"),
        rebased(8_700, 11),
        reads(8_800, 12, bodies("c", 1..=4, 4)),
        stood(15),
    ]);
    let entry = |number| {
        let payload = payload("c", number, number == 4);
        Entry { run: "c".to_owned(), at: T0 + 8_700 * MS, payload }
    };
    world.log.entries.extend((1..=4).map(entry));
    world.log.runs.insert("c".to_owned(), record("c", 12, 4, 8_650, 8_800, None));
    (world.log.tail, world.log.epoch) = (15, "f".to_owned());
    world
}

/// The same, and the producer is gone: the log ends where the standby's ended.
fn gone() -> World {
    let mut world = lossy();
    world.lines.retain(|line| match line {
        Line::Request(request) => request.at < T0 + 8_000 * MS,
        Line::Read { at, .. } | Line::Rebased { at, .. } => *at < T0 + 8_000 * MS,
        Line::Stood { .. } => false,
        _ => true,
    });
    world.lines.push(stood(11));
    world.log.entries.truncate(11);
    world.log.runs.remove("c");
    (world.log.tail, world.log.epoch) = (11, "e".to_owned());
    world
}

fn forget(world: &mut World, what: impl Fn(&Line) -> bool) {
    let before = world.lines.len();
    world.lines.retain(|line| !what(line));
    assert!(world.lines.len() < before, "nothing is left out");
}

#[track_caller]
fn finds(class: Class, mut world: World, change: impl FnOnce(&mut World)) {
    assert!(world.found().is_clean(), "{}", world.found());
    change(&mut world);
    let found = world.found();
    assert!(found.count(class) > 0, "not seen as {class:?}:\n{found}");
}

#[test]
fn a_failover_excuses_what_was_acknowledged_while_the_standby_lagged() {
    let found = lossy().found();
    assert!(found.is_clean(), "{found}");
    assert_eq!((found.voided, found.healed, found.replaced, found.rebased), (0, 1, 1, 1));
    let found = gone().found();
    assert!(found.is_clean(), "{found}");
    assert!(found.last_line().contains("lost 0,") && found.last_line().contains("in loss windows 3,"), "{found}");
}

#[test]
fn the_checker_finds_losses_outside_of_a_failover() {
    let is_failover = |line: &Line| matches!(line, Line::Fault(_));
    finds(Class::Lost, gone(), |world| forget(world, is_failover));
    finds(Class::Lost, lossy(), |world| forget(world, is_failover));
    // Acknowledged before the lag, and by the promoted standby.
    finds(Class::Lost, gone(), |world| world.lines.push(acknowledged(6_900, 1, 3, false, 12, "e")));
    finds(Class::Lost, gone(), |world| world.lines.push(acknowledged(8_100, 1, 3, false, 12, "f")));
    finds(Class::Lost, gone(), |world| world.lines.push(request(6_900, "c", What::Start { lease: 3 }, done(0))));
    // A run that was first asked for when the nodes had adopted the history of the standby.
    finds(Class::Lost, gone(), |world| {
        world.lines.push(append(9_000, "d", 4, 1, false, refused("producer-seq-gap")));
    });
}

#[test]
fn the_checker_finds_readers_that_are_told_too_much_or_too_little() {
    // Not told: it has events that the log does not have.
    finds(Class::Lost, gone(), |world| {
        forget(world, |line| matches!(line, Line::Replaced { .. }));
        forget(world, |line| matches!(line, Line::Joined { after: 11, .. }));
    });
    // Told of more than can be lost, of nothing that it saw, of all, and of another epoch before any failover.
    let tell = |line: Line| {
        move |world: &mut World| {
            let at = world.lines.iter().position(|line| matches!(line, Line::Replaced { .. })).expect("a loss");
            world.lines[at] = line;
        }
    };
    finds(Class::Lost, lossy(), tell(replaced(8_600, Some(10))));
    finds(Class::Lost, lossy(), tell(replaced(8_600, Some(14))));
    finds(Class::Lost, lossy(), tell(replaced(8_600, None)));
    finds(Class::Lost, lossy(), |world| {
        let told = world.lines.iter_mut().find(|line| matches!(line, Line::Rebased { .. }));
        *told.expect("another epoch") = rebased(7_900, 11);
    });
    // Given what was lost when all nodes had adopted the history without it.
    finds(Class::Lost, gone(), |world| {
        let last = world.lines.len() - 1;
        let again = [joined(8_600, 11, "e"), reads(8_700, 12, bodies("c", 1..=3, 4)), replaced(8_800, Some(11))];
        world.lines.splice(last..last, again);
    });
}

#[test]
fn an_epoch_that_was_lost_has_nothing_in_common_with_the_log() {
    let entered_at = |entered| {
        let mut world = gone();
        let told = |line: &Line| matches!(line, Line::Replaced { .. });
        let at = world.lines.iter().position(told).expect("a loss");
        // The log entered epoch `f`, and that was lost with the events.
        world.lines.splice(at.., [rebased(entered, 14), replaced(8_600, None), joined(8_610, 0, "e")]);
        world.lines.push(reads(8_700, 1, world.log.digests()));
        world.lines.push(stood(11));
        let before = Loss { since: T0, until: T0 + MS };
        let (begin, end) = (T0, T0 + 2 * MS);
        let (kind, note) = (Kind::PromoteStandby, String::new());
        world.lines.push(Line::Fault(Fault { kind, node: None, begin, end, note, loss: Some(before) }));
        world.found()
    };
    let found = entered_at(7_300);
    assert!(found.is_clean(), "{found}");
    assert!(entered_at(6_500).count(Class::Lost) > 0);
}

#[test]
fn the_checker_finds_two_bodies_for_one_seq_and_two_runs_for_one_fence() {
    let other = || bodies("d", 1..=3, 4);
    finds(Class::Interleaved, gone(), |world| {
        let read = world.lines.iter_mut().find(|line| matches!(line, Line::Read { first: 12, .. }));
        *read.expect("lost events") = reads(7_200, 12, other());
    });
    finds(Class::Interleaved, lossy(), |world| {
        let end = |line: &Line| matches!(line, Line::Request(request) if request.at == T0 + 8_800 * MS);
        let end = world.lines.iter().position(end).expect("the end");
        // In the place of event 3.
        world.lines[end] = acknowledged(8_800, 4, 1, true, 14, "f");
    });
    let fence = |run: &str, started| Line::Fence { thread: "t".into(), fence: 7, run: run.into(), started };
    finds(Class::Duplicated, lossy(), |world| world.lines.extend([fence("c", 1), fence("d", 2)]));
    finds(Class::Duplicated, lossy(), |world| world.lines.extend([fence("c", 1), fence("c", 2)]));
    allows(|world| world.lines.extend([fence("c", 1), fence("c", 1)]));
}

#[test]
fn a_failover_excuses_a_second_call_that_it_overlaps() {
    let excuses = |at: Micros| {
        let mut world = lossy();
        world.lines.extend([called(at, 1, "none"), called(at + 300, 1, "none")]);
        world.see();
        world.found().is_clean()
    };
    assert!(excuses(6_900) && excuses(8_400));
    assert!(!excuses(6_600) && !excuses(8_600));
}
