//! What goes on by itself comes to an end: the steps that nobody has to ask for form no circle. Otherwise a turn could be worked
//! on for ever without an end, and no state would show it.

use std::collections::HashMap;

use stateright::Model;

use super::{
    Scope, State,
    planted::Design::{self, *},
    scopes::{ANSWERED_BESIDE, ASKED, BESIDE, DOOMED, ONCE, OUTAGE, PRODUCED, QUEUED_ASKED, REVOKED},
};

/// How many of the states lie on a circle, or after one.
fn circles(scope: Scope, design: Design) -> (usize, usize) {
    let scope = Scope { design, ..scope };
    let mut states: Vec<State> = scope.init_states();
    let mut known: HashMap<State, usize> = states.iter().cloned().zip(0..).collect();
    let mut next: Vec<Vec<usize>> = Vec::new();
    let (mut own, mut others) = (Vec::new(), Vec::new());
    while next.len() < states.len() {
        let state = states[next.len()].clone();
        scope.progress(&state, &mut own);
        scope.choices(&state, &mut others);
        let mut place = |after: State| {
            *known.entry(after.clone()).or_insert_with(|| {
                states.push(after);
                states.len() - 1
            })
        };
        next.push(own.drain(..).filter_map(|action| scope.after(&state, action)).map(&mut place).collect());
        others.drain(..).filter_map(|action| scope.after(&state, action)).for_each(|after| _ = place(after));
    }
    // States that no step leads to are taken away, until none is left.
    let mut before = vec![0; states.len()];
    next.iter().flatten().for_each(|after| before[*after] += 1);
    let mut free: Vec<usize> = (0..states.len()).filter(|state| before[*state] == 0).collect();
    let mut left = states.len();
    while let Some(state) = free.pop() {
        left -= 1;
        for after in &next[state] {
            before[*after] -= 1;
            free.extend((before[*after] == 0).then_some(*after));
        }
    }
    (left, states.len())
}

#[test]
fn what_goes_on_by_itself_ends() {
    for scope in [ONCE, OUTAGE, DOOMED, BESIDE, REVOKED, ASKED, ANSWERED_BESIDE, PRODUCED, QUEUED_ASKED] {
        let (left, states) = circles(scope, Whole);
        assert_eq!(left, 0, "of {states} states: {scope:?}");
    }
}

#[test]
fn a_start_that_is_refused_for_ever_is_found() {
    for (scope, design) in [(QUEUED_ASKED, InterruptHolds), (ANSWERED_BESIDE, IdsInOneSpace)] {
        let (left, states) = circles(scope, design);
        assert!(left > 0, "{design:?} makes no circle in {states} states");
    }
}
