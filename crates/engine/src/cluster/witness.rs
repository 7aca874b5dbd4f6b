//! Memory outside of the database: the newest beat of each node, as a hash in Redis.
//!
//! A database that lacks a beat which it had acknowledged has lost commits. A node that runs notices that by itself; after
//! a stop of all nodes only a witness does, if a volume was put back to an older state: nothing in such a database tells
//! of it. An empty Redis has seen nothing, and contradicts nothing.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use redis::pipe;
use threadline_core::{
    Generation, Node, NodeId, Timestamp,
    limits::{MAX_LISTED_NODES, NODE_RETENTION},
};
use threadline_store::{DynStore, Lineage, StoreError};

use super::{redis_connection::RedisConnection, redis_error::RedisConnectionError};

/// A beat that the store has acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WitnessedBeat {
    /// Generation in which it was committed.
    pub lineage: Lineage,
    /// Node that committed it.
    pub node: NodeId,
    /// Number of the beat, from 1.
    pub number: u64,
    /// Time of the store's clock.
    pub at: Timestamp,
}

/// Reason why the store was not compared with the witness.
#[derive(Debug, thiserror::Error)]
pub enum WitnessError {
    /// Redis did not answer.
    #[error(transparent)]
    Redis(#[from] RedisConnectionError),
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The witness of an installation. Cheap to clone.
#[derive(Clone)]
pub struct RedisWitness {
    link: RedisConnection,
    key: String,
    /// True once this process has compared the store with the witness.
    compared: Arc<AtomicBool>,
    /// Period whose commits the store has lost, until [`RedisWitness::take_loss`].
    loss: Arc<Mutex<Option<Duration>>>,
}

impl RedisWitness {
    /// Witness under a key that begins with the prefix of locks: no lock has such a name. Compares the store with it, if Redis
    /// can be reached.
    pub async fn open(link: RedisConnection, prefix: &str, installation: &str, store: &DynStore) -> Self {
        let witness = Self {
            link,
            key: format!("{prefix}%lineage:{installation}"),
            compared: Arc::default(),
            loss: Arc::default(),
        };
        if let Err(error) = witness.compare(store).await {
            tracing::debug!(%error, "the database is compared with the witness once Redis is there");
        }
        witness
    }

    /// Compares the store with what was witnessed before this process, unless that is done. If the store has lost commits, its
    /// fence is closed, and a generation is opened as soon as the engine runs.
    async fn compare(&self, store: &DynStore) -> Result<(), WitnessError> {
        if self.compared.load(Ordering::Relaxed) {
            return Ok(());
        }
        let (fields,): (HashMap<String, String>,) = self.link.ask(pipe().cmd("HGETALL").arg(&self.key)).await?;
        let seen: Vec<_> = fields.iter().filter_map(|(node, text)| WitnessedBeat::read(node, text)).collect();
        // After the witness: a beat is committed before it is witnessed.
        let (_, nodes) = store.nodes(MAX_LISTED_NODES).await?;
        let known = store.lineage().pass()?;
        self.compared.store(true, Ordering::Relaxed);
        let Some(newest) = newest(&seen) else { return Ok(()) };
        if newest.contradicts(known, &nodes) {
            // Beats after the witnessed one are of nodes that run on the older data already.
            let last = nodes.iter().map(|node| node.at).filter(|at| *at <= newest.at).max().unwrap_or(newest.at);
            let loss = Duration::from_millis(u64::try_from(newest.at.0.saturating_sub(last.0)).unwrap_or_default());
            tracing::error!(
                node = %newest.node, beat = newest.number, generation = %newest.lineage.generation,
                loss_window_ms = loss.as_millis(),
                "the database lacks a beat that it had acknowledged: older data was put back while no node was running"
            );
            *self.loss.lock().unwrap_or_else(PoisonError::into_inner) = Some(loss);
            store.lineage().roll_back(newest.lineage);
        }
        // The rows of these nodes are removed after the same time.
        let old = |beat: &&WitnessedBeat| Duration::from_millis(newest.at.0.abs_diff(beat.at.0)) > NODE_RETENTION;
        let old: Vec<_> = seen.iter().filter(old).map(|beat| beat.node.to_string()).collect();
        if !old.is_empty() {
            self.link.ask::<()>(pipe().cmd("HDEL").arg(&self.key).arg(old).ignore()).await?;
        }
        Ok(())
    }

    /// The period whose commits the comparison found to be lost, once.
    pub(crate) fn take_loss(&self) -> Option<Duration> {
        self.loss.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Notes the newest beat of a node, once what was witnessed before is compared.
    pub(crate) async fn note(&self, store: &DynStore, beat: &WitnessedBeat) -> Result<(), WitnessError> {
        self.compare(store).await?;
        let WitnessedBeat { lineage: Lineage { generation, nonce }, node, number, at } = beat;
        let text = format!("{generation} {nonce} {number} {}", at.0);
        Ok(self.link.ask::<()>(pipe().cmd("HSET").arg(&self.key).arg(node.to_string()).arg(text).ignore()).await?)
    }
}

impl WitnessedBeat {
    fn read(node: &str, text: &str) -> Option<Self> {
        let mut numbers = text.split(' ');
        let lineage =
            Lineage { generation: Generation(numbers.next()?.parse().ok()?), nonce: numbers.next()?.parse().ok()? };
        let (number, at) = (numbers.next()?.parse().ok()?, Timestamp(numbers.next()?.parse().ok()?));
        Some(Self { lineage, node: node.to_owned().try_into().ok()?, number, at })
    }

    /// True if a store with this newest generation and these nodes cannot have acknowledged the beat and kept it. A beat of
    /// an earlier generation may be among what was lost before the newest one was opened.
    fn contradicts(&self, known: Lineage, nodes: &[Node]) -> bool {
        let beat = nodes.iter().find(|node| node.id == self.node).map(|node| node.beat);
        match self.lineage.generation.cmp(&known.generation) {
            std::cmp::Ordering::Greater => true,
            std::cmp::Ordering::Equal => self.lineage.nonce != known.nonce || beat < Some(self.number),
            std::cmp::Ordering::Less => false,
        }
    }
}

/// The beat that was committed last: data that was put back lacks it, whatever else it lacks.
fn newest(seen: &[WitnessedBeat]) -> Option<WitnessedBeat> {
    seen.iter().copied().max_by_key(|beat| (beat.lineage.generation, beat.at, beat.number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beat(generation: i64, nonce: i64, number: u64, at: i64) -> WitnessedBeat {
        let lineage = Lineage { generation: Generation(generation), nonce };
        WitnessedBeat { lineage, node: NodeId::generate(), number, at: Timestamp(at) }
    }

    fn row(of: &WitnessedBeat, beat: u64) -> Node {
        Node {
            id: of.node,
            name: String::new(),
            version: String::new(),
            started_at: of.at,
            beat,
            at: of.at,
            leaving: false,
            skew_ms: None,
            rtt_us: None,
            step_ms: None,
        }
    }

    #[test]
    fn a_beat_contradicts_a_store_that_lacks_it() {
        let seen = beat(3, 7, 100, 5_000);
        let known = |generation, nonce| Lineage { generation: Generation(generation), nonce };
        let other = row(&beat(3, 7, 900, 5_000), 900);
        for (known, rows, contradicts) in [
            (known(3, 7), vec![row(&seen, 100), other.clone()], false),
            (known(3, 7), vec![row(&seen, 101)], false),
            (known(3, 7), vec![row(&seen, 99), other.clone()], true),
            (known(3, 7), vec![other], true),
            (known(3, 8), vec![row(&seen, 100)], true),
            (known(2, 7), vec![row(&seen, 100)], true),
            // The loss was noticed: the generation after it is open.
            (known(4, 9), vec![], false),
        ] {
            assert_eq!(seen.contradicts(known, &rows), contradicts, "{known:?} {rows:?}");
        }
    }

    #[test]
    fn the_newest_beat_is_of_the_newest_generation() {
        let beats = [beat(1, 7, 9, 9_000), beat(2, 8, 1, 5_000), beat(2, 8, 3, 4_000)];
        assert_eq!(newest(&beats), Some(beats[1]));
        assert_eq!(newest(&[]), None);
    }

    #[test]
    fn what_another_program_wrote_is_ignored() {
        let node = NodeId::generate().to_string();
        for text in ["", "1", "1 2 3", "1 2 x 4", "a b c d", "1 2 -3 4"] {
            assert_eq!(WitnessedBeat::read(&node, text), None, "{text:?}");
        }
        assert_eq!(WitnessedBeat::read("", "1 2 3 4"), None);
        let read = WitnessedBeat::read(&node, "1 2 3 4 more").expect("a later release may add something");
        assert_eq!(
            (read.lineage.generation, read.lineage.nonce, read.number, read.at),
            (Generation(1), 2, 3, Timestamp(4))
        );
    }
}
