//! Planted bugs, and what brings each of them out. `plants/NAME.patch` is the bug; `make chaos PLANT=name` applies the patch to a
//! copy of the work tree, which these tests are then a part of.

use std::time::Duration;

use crate::{history::Kind, run::Plan, world::Size};

/// Duration of the faults before the checker looks for the bug.
const LASTS: Duration = Duration::from_secs(20);

/// A bug, the faults under which it shows, and what the load needs for it.
pub struct Plant {
    pub name: &'static str,
    kinds: &'static [Kind],
    size: fn(Size) -> Size,
}

const fn plant(name: &'static str, kinds: &'static [Kind], size: fn(Size) -> Size) -> Plant {
    Plant { name, kinds, size }
}

/// More answers are lost.
fn forgetful(size: Size) -> Size {
    Size { dropped: 12, ..size }
}

/// More producers pause for longer than their lease, with rivals that wait for that.
fn stuck(size: Size) -> Size {
    Size { stuck: 150, contended: 12, lanes: 20, ..size }
}

/// Threads are read where they are not written, and there is much to read.
fn busy(size: Size) -> Size {
    Size { hops: 40, pause: 60, ..size }
}

/// Few threads that fall silent, with many readers, most of which begin with the first event each time.
fn crowded(size: Size) -> Size {
    Size { lanes: 10, contended: 0, agents: 0, queues: 0, sockets: 60, streams: 40, anew: 60, stuck: 60, ..size }
}

/// Most runs are of agents that are called.
fn called(size: Size) -> Size {
    Size { lanes: 8, contended: 0, agents: 28, ..size }
}

/// Most turns wait for each other.
fn queued(size: Size) -> Size {
    Size { lanes: 8, contended: 0, queues: 24, ..size }
}

pub const PLANTS: &[Plant] = &[
    plant("ack-before-commit", &[Kind::KillPostgres, Kind::KillNode], |size| size),
    plant("asynchronous-commit", &[Kind::KillPostgres], |size| size),
    plant("no-fence-check", &[Kind::StopNode], stuck),
    plant("fence-from-redis", &[Kind::Flushall, Kind::KillRedis], stuck),
    plant("log-key", &[Kind::Delay], |size| Size { rude: 60, ..busy(size) }),
    plant("retry-without-number", &[Kind::KillNode], forgetful),
    plant("fence-before-duplicate", &[Kind::KillNode], forgetful),
    plant("unknown-called-retryable", &[Kind::KillNode], forgetful),
    plant("drop-on-lag", &[Kind::KillRedis, Kind::Cut], busy),
    plant("subscribe-after-read", &[Kind::RestartNode], |size| size),
    plant("resume-at-cursor", &[Kind::RestartNode], |size| size),
    plant("missing-reap", &[Kind::KillNode], |size| size),
    plant("no-turn", &[Kind::KillNode], |size| size),
    plant("seal-under-writer", &[Kind::Flushall], busy),
    plant("hint-sets-tail", &[Kind::FalseHints], |size| size),
    plant("bare-ids", &[Kind::PromoteStandby], |size| size),
    plant("epoch-kept", &[Kind::PromoteStandby], |size| size),
    plant("ring-kept", &[Kind::PromoteStandby], crowded),
    plant("no-lineage-fence", &[Kind::PromoteStandby], |size| size),
    plant("ready-without-beats", &[Kind::StopPostgres], |size| size),
    plant("trash-without-the-head", &[Kind::KillNode], |size| size),
    plant("any-role", &[Kind::KillNode], |size| size),
    plant("answers-of-pushed-runs", &[Kind::KillNode], |size| size),
    plant("page-is-believed", &[Kind::KillNode], |size| size),
    plant("key-outlived", &[Kind::KillNode], |size| size),
    plant("cutoff-unread", &[Kind::KillNode], |size| size),
    plant("queue-first-come", &[Kind::KillNode], |size| size),
    plant("fold-unsliced", &[Kind::KillNode], |size| size),
    plant("long-step-in-every-slot", &[Kind::KillNode], |size| size),
    plant("tree-unbounded", &[Kind::KillNode], |size| size),
    plant("ping-free", &[Kind::KillNode], |size| size),
    plant("frame-uncounted", &[Kind::KillNode], |size| size),
    plant("charge-by-count", &[Kind::KillNode], |size| size),
    plant("numbers-by-channel", &[Kind::KillNode], |size| size),
    plant("unknown-connection-kept", &[Kind::KillNode], |size| size),
    plant("address-uncounted", &[Kind::KillNode], |size| size),
    plant("ids-are-shared", &[Kind::KillNode], |size| size),
    plant("purge-keeps-usage", &[Kind::KillNode], |size| size),
    plant("take-keeps-fence", &[Kind::KillNode], |size| size),
    plant("take-up-keeps-attempt", &[Kind::KillNode], |size| size),
    plant("late-start-takes-back", &[Kind::KillNode], |size| size),
    plant("lost-start-writes", &[Kind::KillNode], |size| size),
    plant("claim-takes-over", &[Kind::KillNode], |size| size),
    plant("late-driver-closes", &[Kind::KillNode], |size| size),
    plant("retry-after-tool", &[Kind::KillNode], called),
    plant("continue-keeps-open-call", &[Kind::KillNode], |size| size),
    plant("continue-forgets-calls", &[Kind::KillNode], |size| size),
    plant("retry-approved", &[Kind::KillNode], |size| size),
    plant("no-supersede", &[Kind::KillNode], |size| size),
    plant("swallow-start", &[Kind::KillNode], |size| size),
    plant("stop-keeps-version", &[Kind::KillNode], |size| size),
    plant("start-jumps", &[Kind::KillNode], |size| size),
    plant("stop-empties-queue", &[Kind::KillNode], queued),
    plant("last-turn-first", &[Kind::KillNode], queued),
    plant("begin-revoked", &[Kind::KillNode], |size| size),
    plant("fork-without-parent", &[Kind::KillNode], |size| size),
    plant("no-branch-listed", &[Kind::KillNode], |size| size),
    plant("operation-forgotten", &[Kind::KillNode], |size| size),
    plant("shared-blob-deleted", &[Kind::KillNode], |size| size),
    plant("names-uncounted", &[Kind::KillNode], |size| size),
    plant("python-folds-otherwise", &[Kind::KillNode], |size| size),
    plant("superseded-is-replayed", &[Kind::KillNode], |size| size),
    plant("superseded-without-numbers", &[Kind::KillNode], |size| size),
    plant("stream-tag-uncompared", &[Kind::KillNode], |size| size),
    plant("dead-by-own-outage", &[Kind::KillNode], |size| size),
];

impl Plant {
    pub fn named(name: &str) -> &'static Self {
        let known: Vec<_> = PLANTS.iter().map(|plant| plant.name).collect();
        let found = PLANTS.iter().find(|plant| plant.name == name);
        found.unwrap_or_else(|| panic!("PLANT={name} names no bug; there are: all, none, {}", known.join(", ")))
    }

    pub fn plan(&self, seed: u64, size: Size) -> Plan {
        Plan { seed, lasts: LASTS, kinds: self.kinds.to_vec(), size: (self.size)(size) }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::PLANTS;

    #[test]
    fn every_planted_bug_is_a_patch_and_every_patch_a_planted_bug() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/chaos/plants");
        let patches: BTreeSet<_> = fs::read_dir(directory)
            .expect("a directory")
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
            .collect();
        assert_eq!(patches, PLANTS.iter().map(|plant| format!("{}.patch", plant.name)).collect());
    }
}
