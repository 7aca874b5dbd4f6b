//! The list of threads shows one member of each family: exactly one, as long as one is there.
//!
//! A statement reads the family, and changes rows later. Before it changes a row, it waits for the row's lock and looks again
//! at this row alone, as `UPDATE … WHERE key = … AND deleted = 0` does.

use stateright::{Checker, HasDiscoveries, Model, Property};

const MEMBERS: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Design {
    Whole,
    ForkHidesParent, // a fork takes only its parent off the list
    NoFamilyVersion, // what a statement has read of a family is not compared when it changes it
}
use Design::*;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Member {
    known: bool,
    there: bool,
    listed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Change {
    Fork(usize),
    Delete(usize),
    Restore(usize),
    Choose(usize),
}

/// A change with what was read: the version of the family, who is listed, and who is the newest of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Statement {
    change: Change,
    version: u8,
    listed: Option<usize>,
    newest: Option<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    members: [Member; MEMBERS],
    version: u8,
    statements: Vec<Statement>,
    begun: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Read(Change),
    Write(usize),
}

struct Family {
    design: Design,
    changes: u8,
}

impl Family {
    fn read(&self, s: &State, change: Change) -> Option<Statement> {
        let there = |member: usize| s.members[member].there;
        let allowed = match change {
            Change::Fork(parent) => there(parent) && s.members.iter().any(|member| !member.known),
            Change::Delete(member) | Change::Choose(member) => there(member),
            Change::Restore(member) => s.members[member].known && !there(member),
        };
        let listed = (0..MEMBERS).find(|member| there(*member) && s.members[*member].listed);
        let gone = if let Change::Delete(member) = change { Some(member) } else { None };
        let newest = (0..MEMBERS).rev().find(|member| there(*member) && Some(*member) != gone);
        allowed.then_some(Statement { change, version: s.version, listed, newest })
    }

    /// A statement whose family has changed since is made again.
    fn write(&self, s: &mut State, index: usize) {
        let Statement { change, version, listed, newest } = s.statements.remove(index);
        if version != s.version && self.design != NoFamilyVersion {
            s.statements.extend(self.read(s, change));
            return;
        }
        s.version += 1;
        match change {
            Change::Fork(parent) => {
                let Some(child) = s.members.iter().position(|member| !member.known) else { return };
                if !s.members[parent].there {
                    return;
                }
                let hidden = if self.design == ForkHidesParent { Some(parent) } else { listed };
                Self::list(s, hidden, false);
                s.members[child] = Member { known: true, there: true, listed: true };
            }
            Change::Delete(member) => {
                if s.members[member].there {
                    s.members[member] = Member { there: false, listed: false, ..s.members[member] };
                    Self::list(s, newest.filter(|_| listed == Some(member)), true);
                }
            }
            Change::Restore(member) => {
                s.members[member].there = true;
                Self::list(s, Some(member), listed.is_none());
            }
            Change::Choose(member) => {
                if s.members[member].there {
                    Self::list(s, listed, false);
                    Self::list(s, Some(member), true);
                }
            }
        }
    }

    fn list(s: &mut State, member: Option<usize>, listed: bool) {
        if let Some(member) = member.map(|member| &mut s.members[member]).filter(|member| member.there) {
            member.listed = listed;
        }
    }
}

impl State {
    fn listed(&self) -> usize {
        self.members.iter().filter(|member| member.listed).count()
    }

    fn is_there(&self) -> bool {
        self.members.iter().any(|member| member.there)
    }
}

impl Model for Family {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut members = [Member::default(); MEMBERS];
        members[0] = Member { known: true, there: true, listed: true };
        vec![State { members, version: 0, statements: Vec::new(), begun: 0 }]
    }

    fn actions(&self, s: &State, actions: &mut Vec<Action>) {
        actions.extend((0..s.statements.len()).map(Action::Write));
        if s.begun < self.changes && s.statements.len() < 2 {
            for member in 0..MEMBERS {
                let changes =
                    [Change::Fork(member), Change::Delete(member), Change::Restore(member), Change::Choose(member)];
                actions.extend(changes.map(Action::Read));
            }
        }
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut s = before.clone();
        match action {
            Action::Read(change) => {
                s.statements.push(self.read(&s, change)?);
                s.begun += 1;
            }
            Action::Write(index) => self.write(&mut s, index),
        }
        Some(s)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::<Self>::always("one member of a family is listed", |_, s| {
                s.listed() == usize::from(s.is_there())
            }),
            Property::<Self>::sometimes("a family is deleted", |_, s| !s.is_there()),
            Property::<Self>::sometimes("a statement is made again", |m, s| {
                m.design == Whole && s.statements.iter().any(|statement| statement.version != s.version)
            }),
        ]
    }
}

#[test]
fn one_member_of_a_family_is_listed() {
    let checker =
        Family { design: Whole, changes: 5 }.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    println!("{} states", checker.unique_state_count());
    checker.assert_properties();
    assert!(checker.unique_state_count() >= 5_000);
}

fn breaks(design: Design) {
    let property = "one member of a family is listed";
    for depth in 2..=12 {
        let search = Family { design, changes: 5 }.checker().target_max_depth(depth);
        let checker = search.finish_when(HasDiscoveries::AnyOf([property].into())).spawn_bfs().join();
        if let Some(path) = checker.discovery(property) {
            return println!("{design:?} breaks \"{property}\": {:?}", path.into_actions());
        }
    }
    panic!("{design:?} was not found to break \"{property}\"");
}

#[test]
fn with_a_fork_that_hides_its_parent_alone() {
    breaks(ForkHidesParent);
}

#[test]
fn with_changes_that_compare_no_version_of_the_family() {
    breaks(NoFamilyVersion);
}
