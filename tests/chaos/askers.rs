//! Clients that keep the queue of a thread filled, and change it: one for each thread, so that the order which it saw last is the
//! one that counts.

use std::{sync::Arc, time::Duration};

use serde_json::json;
use threadline_client::{Busy, EditTurn, Queue, RunAnswer, StartRun, TurnPlace};
use tokio::time::{Instant, timeout};

use crate::{
    history::{Class, Line, What, now},
    world::{Answer, Caller, PATIENCE, World},
};

/// Turns that wait at most: few, so that most of them begin.
const DEPTH: usize = 4;
/// Looks at a queue of several turns, of 100, that move one, that remove one, and that stop the active run.
const MOVES: u64 = 20;
const REMOVALS: u64 = 8;
const STOPS: u64 = 8;
/// Longest time in which the last turns begin and end, once nothing is queued any more.
const LAST_TURNS: Duration = Duration::from_secs(75);

/// The only client that changes the queue of its thread.
pub struct Asker {
    caller: Caller,
    agent: &'static str,
    thread: String,
    asked: u64,
    /// Turns of the last look, and the one that has begun last.
    waiting: Vec<String>,
    begun: Option<String>,
}

impl Asker {
    pub fn new(world: Arc<World>, agent: &'static str, thread: &str, stream: u64) -> Self {
        let caller = Caller::new(world, &format!("asker-{thread}"), stream);
        Self { caller, agent, thread: thread.to_owned(), asked: 0, waiting: Vec::new(), begun: None }
    }

    /// Asks until the load ends, then waits until nothing is queued.
    pub async fn work(mut self) {
        while self.caller.world.is_running() {
            self.caller.breathe(600).await;
            let Some(queue) = self.look().await else { continue };
            if queue.held.is_some() {
                self.release().await;
            }
            if queue.items.len() > 1 && self.caller.rng.chance(MOVES) {
                self.moves(&queue).await;
            } else if queue.items.len() > 1 && self.caller.rng.chance(REMOVALS) {
                self.removes(&queue).await;
            } else if queue.items.len() > 1 && self.caller.rng.chance(STOPS) {
                self.stops().await;
            } else if queue.items.len() < DEPTH {
                self.enqueues().await;
            }
        }
        let began = Instant::now();
        loop {
            match self.look().await {
                Some(queue) if queue.items.is_empty() => break,
                Some(queue) if queue.held.is_some() => self.release().await,
                _ => self.caller.breathe(600).await,
            }
            if began.elapsed() > LAST_TURNS {
                self.caller
                    .world
                    .wrong(Class::Unfinished, format!("{}: the queue does not come to an end", self.thread));
                break;
            }
        }
        if let Some(run) = &self.begun {
            self.caller.world.has_ended(run);
        }
        self.caller.history.flush();
    }

    /// Reads the queue, and writes down its order; `None` if the node does not answer.
    async fn look(&mut self) -> Option<Queue> {
        let asked = now();
        let Ok(Ok(queue)) = timeout(PATIENCE, self.caller.client().queue(&self.thread)).await else {
            self.caller.hop();
            return None;
        };
        self.saw(asked, &queue);
        Some(queue)
    }

    fn saw(&mut self, asked: u64, queue: &Queue) {
        let runs: Vec<_> = queue.items.iter().map(|turn| turn.run_id.clone()).collect();
        // The last one that is gone is the one that others may stop.
        if let Some(run) = self.waiting.iter().rfind(|run| !runs.contains(run)).cloned() {
            self.begins(run);
        }
        self.waiting.clone_from(&runs);
        let (thread, version) = (self.thread.clone(), queue.version);
        self.caller.history.write(&Line::Order { asked, at: now(), thread, version, runs });
    }

    fn begins(&mut self, run: String) {
        self.caller.world.begins(&self.thread, &run);
        if let Some(before) = self.begun.replace(run) {
            self.caller.world.has_ended(&before);
        }
    }

    /// Queues one more turn, until a node says that it is there.
    async fn enqueues(&mut self) {
        let run = format!("{}-{}", self.thread, self.asked);
        self.asked += 1;
        let input = json!({ "messages": [{ "id": format!("m-{run}"), "role": "user", "content": "Hello" }] });
        let start = StartRun {
            run_id: Some(run.clone()),
            agent_id: Some(self.agent.to_owned()),
            input: Some(input),
            ..StartRun::default()
        };
        let began = Instant::now();
        loop {
            let client = self.caller.client();
            let request = client.start_or_queue(&self.thread, &start, Some(Busy::Enqueue));
            match self.caller.ask(&self.thread, &run, What::Enqueue, request, |_| (0, false, None)).await {
                Answer::Done(RunAnswer::Queued(_)) => self.waiting.push(run),
                Answer::Done(RunAnswer::Started(_)) => self.begins(run),
                Answer::Refused(slug) => {
                    self.caller.world.wrong(Class::Lost, format!("the turn {run} was refused: {slug}"));
                }
                Answer::Unknown | Answer::Dropped if self.caller.again(began).await => continue,
                Answer::Unknown | Answer::Dropped => {}
            }
            return;
        }
    }

    /// Moves a turn. The version makes sure that a request which comes late changes nothing.
    async fn moves(&mut self, queue: &Queue) {
        let last = queue.items.len() as u64 - 1;
        let (from, to) = (self.caller.rng.between(0, last) as usize, self.caller.rng.between(0, last) as usize);
        let place = if from == to { TurnPlace::Last } else { TurnPlace::Before(queue.items[to].run_id.clone()) };
        let (run, edit) =
            (&queue.items[from].run_id, EditTurn { place: Some(place), version: Some(queue.version), input: None });
        let (asked, client) = (now(), self.caller.client());
        let request = client.edit_turn(&self.thread, run, &edit, None);
        let what = What::Move { version: queue.version };
        let answer = self.caller.ask(&self.thread, run, what, request, |_| (0, false, None)).await;
        if let Answer::Done(queue) = answer {
            self.saw(asked, &queue);
        }
    }

    async fn removes(&mut self, queue: &Queue) {
        let at = self.caller.rng.between(0, queue.items.len() as u64 - 1) as usize;
        let run = &queue.items[at].run_id;
        let client = self.caller.client();
        let request = client.remove_turn(&self.thread, run, None);
        self.caller.ask(&self.thread, run, What::Remove, request, |()| (0, false, None)).await;
        self.waiting.retain(|other| other != run);
    }

    /// Stops the run that has begun last, which may have ended.
    async fn stops(&mut self) {
        let Some(run) = self.begun.clone() else { return };
        let client = self.caller.client();
        let request = client.stop(&self.thread, &run);
        self.caller.ask(&self.thread, &run, What::Stop, request, |run| (0, run.ended_at.is_some(), None)).await;
    }

    async fn release(&mut self) {
        let client = self.caller.client();
        let request = client.release_queue(&self.thread, None);
        // The queue of the thread is meant, and no run of it.
        self.caller.ask(&self.thread, "", What::Release, request, |_| (0, false, None)).await;
    }
}
