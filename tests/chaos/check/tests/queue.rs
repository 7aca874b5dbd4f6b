//! Queues: what a turn owes, and the order in which turns begin.

use super::*;

fn order(at: Micros, version: u64, runs: &[&str]) -> Line {
    let (asked, thread) = (T0 + at * MS, "t".to_owned());
    Line::Order { asked, at: asked + MS, thread, version, runs: runs.iter().map(|run| (*run).to_owned()).collect() }
}

/// The turns `a` and `b`, which were accepted and have begun in this order.
fn queued(world: &mut World) {
    world.lines.retain(|line| !matches!(line, Line::Request(request) if matches!(request.what, What::Start { .. })));
    world.lines.extend([
        request(0, "a", What::Enqueue, Outcome::Dropped),
        request(1, "a", What::Enqueue, done(0)),
        request(2, "b", What::Enqueue, done(0)),
        order(3, 2, &["a", "b"]),
    ]);
}

fn breaks(class: Class, change: impl FnOnce(&mut World)) {
    sees(class, |world| {
        queued(world);
        change(world);
    });
}

fn keeps(change: impl FnOnce(&mut World)) {
    allows(|world| {
        queued(world);
        change(world);
    });
}

#[test]
fn turns_that_begin_in_their_order_are_clean_and_counted() {
    let mut world = World::new();
    queued(&mut world);
    let found = world.found();
    assert!(found.is_clean(), "{found}");
    assert_eq!((found.queued, found.begun, found.pairs), (2, 2, 1));
}

#[test]
fn an_accepted_turn_begins_or_was_removed() {
    let accepted = |world: &mut World| world.lines.push(request(5, "c", What::Enqueue, done(0)));
    breaks(Class::Lost, accepted);
    breaks(Class::Lost, |world| {
        accepted(world);
        world.lines.push(request(6, "c", What::Remove, refused("turn-begun")));
    });
    for outcome in [done(0), Outcome::Unknown, Outcome::Dropped] {
        keeps(|world| {
            accepted(world);
            world.lines.push(request(6, "c", What::Remove, outcome));
        });
    }
    // A turn without a clear answer need not be there.
    keeps(|world| world.lines.push(request(5, "c", What::Enqueue, Outcome::Unknown)));
    breaks(Class::Unfinished, |world| world.log.queued = 1);
}

#[test]
fn a_removed_turn_does_not_begin() {
    breaks(Class::Duplicated, |world| world.lines.push(request(5, "b", What::Remove, done(0))));
    // The first request may have come after the removal.
    keeps(|world| world.lines.push(request(5, "a", What::Remove, done(0))));
    keeps(|world| world.lines.push(request(5, "b", What::Remove, refused("turn-begun"))));
}

#[test]
fn turns_begin_in_the_order_that_was_seen_last() {
    breaks(Class::Interleaved, |world| world.lines.push(order(5, 3, &["b", "a"])));
    keeps(|world| world.lines.extend([order(5, 3, &["b", "a"]), order(6, 4, &["a", "b"])]));
    // A move may have come after the last look with both turns, as long as the version was the same.
    for outcome in [done(0), Outcome::Unknown] {
        let moved = |version| request(4, "a", What::Move { version }, outcome.clone());
        keeps(|world| world.lines.extend([order(5, 3, &["b", "a"]), moved(3)]));
        breaks(Class::Interleaved, |world| world.lines.extend([order(5, 3, &["b", "a"]), moved(2)]));
    }
    breaks(Class::Interleaved, |world| {
        world
            .lines
            .extend([order(5, 3, &["b", "a"]), request(4, "a", What::Move { version: 3 }, refused("queue-changed"))]);
    });
}
