//! A reader's life: connect, read at its own pace, drop what it waits for, disconnect, come again.

use std::{
    sync::{Arc, Mutex, atomic::Ordering::SeqCst},
    time::Duration,
};

use threadline_core::{Epoch, Run, Seq, Thread, ThreadId};
use threadline_engine::subscription::{FollowError, ReplacedLog};
use threadline_store::ThreadStore;
use tokio::time::{sleep, timeout};

use super::{checker::Session, planted::Design, planted::Reader, world::World};
use crate::support::{Rng, project};

/// The connection that a reader has now.
pub type Seat = Arc<Mutex<Option<Session>>>;

/// Reads one thread on one node until it is aborted.
pub async fn read(world: Arc<World>, node: usize, thread: ThreadId, mut rng: Rng, seat: Seat) {
    let mut resume = None;
    loop {
        let found = world.raw.thread_named(&project(), &thread).await.expect("store").thread();
        if let Some(found) = found
            && let Some((reader, session)) = connect(&world, node, &found, &mut resume, &mut rng).await
        {
            *seat.lock().expect("lock") = Some(session);
            converse(&world, reader, &mut rng, &seat).await;
            let session = seat.lock().expect("lock").take().expect("session");
            resume = Some((session.epoch, session.cursor));
        }
        sleep(rng.millis(40)).await;
    }
}

/// Opens a subscription, and checks what came of it.
async fn connect(
    world: &World,
    node: usize,
    thread: &Thread,
    resume: &mut Option<(Epoch, Seq)>,
    rng: &mut Rng,
) -> Option<(Reader, Session)> {
    let known_tail = world.truth().logs[&thread.key].tail();
    let ahead = resume.is_none() && rng.chance(10);
    let (cursor, epoch) = match *resume {
        Some((epoch, cursor)) => (cursor, Some(epoch)),
        None if ahead => (known_tail + 1_000_000, None),
        None => (rng.below(known_tail + 1), rng.chance(50).then_some(thread.epoch)),
    };
    let foreign = epoch.is_some_and(|epoch| epoch != thread.epoch);
    let bound = if foreign || ahead { None } else { choose_run(world, thread, rng) };
    let (bound, run) = bound.unzip();
    let opened = Reader::open(world, node, thread.key, cursor, epoch, run.clone()).await;
    let gone = world.truth().logs[&thread.key].gone;
    match opened {
        Ok(_) if foreign => world.violation("a cursor of another epoch was served".into()),
        Ok(_) if ahead => world.violation("a cursor beyond the tail was served".into()),
        Ok(reader) => {
            world.stats().resumed += usize::from(resume.is_some_and(|(_, cursor)| cursor > 0));
            world.stats().far += usize::from(known_tail - cursor > 1_000);
            let cursor = run.map_or(cursor, |run| cursor.max(run.first_seq - 1));
            let session =
                Session { key: thread.key, epoch: thread.epoch, cursor, live: false, ended: false, bound, known_tail };
            return Some((reader, session));
        }
        Err(FollowError::LogReplaced(ReplacedLog { epoch, .. })) if foreign && epoch == Some(thread.epoch) => {
            world.stats().replaced += 1;
            *resume = Some((thread.epoch, 0));
        }
        Err(FollowError::CursorAhead { .. }) if ahead => world.stats().ahead += 1,
        Err(FollowError::Gone) if gone => {}
        Err(error) => world.violation(format!("open after {cursor} of {known_tail}: {error}")),
    }
    None
}

/// Sometimes a run to be bounded to: active, ended, or ended without an event.
fn choose_run(world: &World, thread: &Thread, rng: &mut Rng) -> Option<(usize, Run)> {
    let honest = matches!(world.options.design, Design::Real);
    if !honest || world.quiet.load(SeqCst) || !rng.chance(40) {
        return None;
    }
    let truth = world.truth();
    let runs = &truth.logs[&thread.key].runs;
    // Mostly the newest ones.
    let index = runs.len().checked_sub(1 + rng.below(rng_bound(runs.len())) as usize)?;
    let run = &runs[index];
    let mut record = run.run.clone();
    if let Some(last) = run.last
        && rng.chance(50)
    {
        // As it is read after its end; else the subscription has to find out.
        record.producer_seq = last + 1 - record.first_seq;
        record.ended_at = Some(record.started_at);
    }
    Some((index, record))
}

fn rng_bound(runs: usize) -> u64 {
    runs.min(3) as u64
}

async fn converse(world: &World, mut reader: Reader, rng: &mut Rng, seat: &Seat) {
    let who = rng.next() % 1_000;
    let slow = rng.chance(25);
    loop {
        let patience = if rng.chance(30) { rng.millis(4) } else { rng.millis(400) };
        match timeout(patience, reader.next()).await {
            Err(_) => world.stats().dropped += 1,
            Ok(Err(error)) => return world.violation(format!("reader {who}: {error}")),
            Ok(Ok(None)) => {
                let ended = seat.lock().expect("lock").as_ref().is_some_and(|session| session.ended);
                if !ended {
                    world.violation(format!("reader {who}: nothing more without an end"));
                }
                return;
            }
            Ok(Ok(Some(delivery))) => {
                let mut seat = seat.lock().expect("lock");
                let session = seat.as_mut().expect("session");
                let mut stats = world.stats();
                if let Err(wrong) = session.take(&world.truth(), &delivery, &mut stats) {
                    drop(stats);
                    return world.violation(format!("reader {who} of {:?}: {wrong}", session.bound));
                }
                if session.ended && world.options.design != Design::Real {
                    return;
                }
            }
        }
        if !world.quiet.load(SeqCst) {
            if rng.chance(if slow { 60 } else { 3 }) {
                sleep(rng.millis(500)).await;
            }
            if rng.chance(4) {
                return;
            }
        } else {
            sleep(Duration::from_millis(1)).await;
        }
    }
}
