//! What a driver does: it marks, calls, appends and ends, by the fence of its attempt.

use super::{
    Scope, State,
    nodes::{Stage, ends},
    planted::Design::*,
    store::{Finish, Kind},
    wire::Statement,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Mark,
    Call,
    Say(Kind),
    End(Kind),
    HandOver,
}

pub const STEPS: [Step; 9] = [
    Step::Mark,
    Step::Call,
    Step::Say(Kind::Text),
    Step::Say(Kind::Tool),
    Step::End(Kind::Finished),
    Step::End(Kind::Stopped),
    Step::End(Kind::Failed),
    Step::End(Kind::Interrupted),
    Step::HandOver,
];

impl Scope {
    /// Calls that may happen once are marked before.
    fn marks(&self, s: &State, run: u8) -> bool {
        let resumes = s.store.runs[usize::from(run)].is_some_and(|run| run.resumes.is_some()) || self.approved;
        self.once || resumes
    }

    /// One step of a driver. What it may do depends on its stage alone, however long it was paused.
    pub fn drive(&self, s: &mut State, node: u8, run: u8, step: Step) -> Option<()> {
        let (at, slot) = (usize::from(node), usize::from(run));
        let driver = s.nodes[at].drivers[slot];
        let (marks, works) = (self.marks(s, run), self.works(s, node));
        match step {
            Step::Mark => {
                let before = self.design != MarkAfterCall && driver.stage == Stage::Ready;
                let after = self.design == MarkAfterCall && driver.stage == Stage::Called;
                let marked = s.store.turns[slot].is_some_and(|turn| turn.called);
                if !works || !marks || !self.calls || !(before || after && !marked) {
                    return None;
                }
                if !s.store.mark(run, driver.fence) {
                    s.nodes[at].forget(run);
                } else if before {
                    s.nodes[at].drivers[slot].stage = Stage::Marked;
                }
            }
            Step::Call => {
                let ready = if marks && self.design != MarkAfterCall { Stage::Marked } else { Stage::Ready };
                (self.calls && driver.stage == ready).then_some(())?;
                s.nodes[at].drivers[slot].stage = Stage::Called;
                s.call(run, driver.attempt, self.continues.then_some(driver.told));
            }
            Step::Say(kind) => {
                let bit = if kind == Kind::Text { 1 } else { 2 };
                let said = driver.said & bit != 0;
                (works && self.says(kind) && driver.stage == Stage::Called && !said).then_some(())?;
                if s.append(run, node, kind) {
                    s.nodes[at].drivers[slot].said |= bit;
                } else {
                    s.nodes[at].forget(run);
                }
            }
            Step::End(kind) => {
                let ready = if self.calls { Stage::Called } else { Stage::Ready };
                let stage = driver.stage == ready || driver.stage == Stage::Called;
                (works && stage && self.ends(s, run, kind)).then_some(())?;
                let fresh = self.design == CloseByFreshFence && s.store.head.active == Some(run);
                let fence = if fresh { s.store.head.fence } else { driver.fence };
                let opens = if kind == Kind::Interrupted { self.opens } else { 0 };
                let finish = Finish { opens, ..ends(run, fence, driver.attempt, kind) };
                let finish = self.plan(s, node, finish);
                s.nodes[at].drivers[slot].stage = Stage::Ending;
                self.send(s, node, run, Statement::Finish(finish))?;
            }
            Step::HandOver => {
                let drives = !matches!(driver.stage, Stage::Unknown | Stage::Expected | Stage::Ending);
                (works && s.nodes[at].leaving && drives).then_some(())?;
                s.nodes[at].forget(run);
                if let Some(turn) = s.store.turns[slot].as_mut().filter(|turn| turn.fence == driver.fence) {
                    turn.driver = None;
                }
            }
        }
        Some(())
    }

    /// How a run may end by itself. A stop that was asked ends it, too.
    fn ends(&self, s: &State, run: u8, kind: Kind) -> bool {
        match kind {
            Kind::Finished => true,
            Kind::Stopped => s.store.head.active == Some(run) && s.store.head.stop,
            Kind::Failed => self.fails,
            Kind::Interrupted => run < self.interrupted,
            _ => false,
        }
    }

    fn says(&self, kind: Kind) -> bool {
        kind == Kind::Text && self.text || kind == Kind::Tool && self.tools
    }
}
