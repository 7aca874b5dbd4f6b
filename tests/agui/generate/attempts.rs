//! Runs whose agent was called twice.

use serde_json::{Value, json};

use super::Generator;
use crate::rng::Rng;

/// A run whose first attempt was lost.
pub struct Attempts {
    generator: Generator,
    /// Events before the first attempt: runs, and the opening of this one.
    opened: usize,
    /// Events before the loss.
    lost: usize,
    /// Ids of messages, calls and activities before the first attempt.
    known: [Vec<String>; 3],
}

impl Attempts {
    pub fn new(seed: u64, number: u64) -> Self {
        let mut generator = Generator::new(Rng::new(seed, number));
        let runs = generator.rng.between(0, 2);
        for run in 0..runs {
            generator.start(run);
            for _ in 0..generator.rng.between(5, 30) {
                generator.step();
            }
            generator.end();
        }
        generator.start(runs);
        if generator.rng.chance(50) {
            let snapshot = generator.object(3);
            generator.emit(json!({"type": "STATE_SNAPSHOT", "snapshot": snapshot}), &None);
        }
        let opened = generator.events.len();
        let known = [generator.messages.clone(), generator.calls.clone(), generator.activities.clone()];
        while generator.events.len() == opened {
            for _ in 0..generator.rng.between(1, 40) {
                generator.step();
            }
        }
        let lost = generator.events.len();
        Self { generator, opened, lost, known }
    }

    /// Events before the first attempt.
    pub fn opened(&self) -> &[String] {
        &self.generator.events[..self.opened]
    }

    /// Events of the first attempt.
    pub fn first(&self) -> &[String] {
        &self.generator.events[self.opened..self.lost]
    }

    /// A second attempt that says the same, and more.
    pub fn again(mut self) -> Vec<String> {
        self.finish();
        self.generator.events.split_off(self.opened)
    }

    /// A second attempt that says something else. `snapshot` are the messages that a snapshot has sent in between.
    pub fn otherwise(mut self, snapshot: Option<&[Value]>) -> Vec<String> {
        let Self { generator, known: [messages, calls, activities], .. } = &mut self;
        let run = &mut generator.run;
        for open in [&mut run.texts, &mut run.calls, &mut run.thoughts, &mut run.spans, &mut run.subagents] {
            open.clear();
        }
        run.steps.clear();
        run.lanes.clear();
        (generator.messages, generator.calls, generator.activities) =
            (std::mem::take(messages), std::mem::take(calls), std::mem::take(activities));
        if let Some(snapshot) = snapshot {
            generator.seed(snapshot, true);
        }
        self.finish();
        self.generator.events.split_off(self.lost)
    }

    fn finish(&mut self) {
        for _ in 0..self.generator.rng.between(5, 40) {
            self.generator.step();
        }
        self.generator.end();
    }
}
