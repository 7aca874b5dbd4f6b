//! Assembly of the engine: its parts, their dependencies, and the listeners of a commit.

use std::{sync::Arc, thread};

use threadline_core::{
    NodeId,
    limits::{MAX_LEASE, MIN_LEASE, WORK_SLOTS},
};
use threadline_store::JobKind;
use tokio::sync::watch;

use crate::{
    AgentDefinitions, Annotations, ApiRecords, Attempts, Checkpoints, Conversations, Events, Feed, Followers, Forks,
    ItemLists, KvEntries, Ports, Projections, Runs, Service, Streams, Threads, ToolClaims, Trash, Users, Validations,
    after_commit::{Listeners, LogCounters},
    cluster::bus::BusEnd,
    commit::{committer, pipeline},
    credentials::{
        Cutoffs, Trail, cutoffs,
        sweep::{self, CredentialSweep},
        trail,
    },
    directory::Directory,
    health,
    lifecycle::Lifecycle,
    limits::{FairQueue, MemoryBudget, Quota, StoredBytes, free_space},
    lineage,
    metrics::Metrics,
    nodes,
    read::{events, feed, folding::Folder, followers, recheck},
    removals::Removals,
    runs::{self, advance, close, heartbeats, lock_guard, reaper, turns},
    subscription::Hub,
    upkeep::{agent_data, clock_guard, feed_writer, jobs, retention, rings, run_notices, snapshots, sweeps, usage},
    usecases::{
        agent_data::AgentDataDeps,
        annotations, forks,
        streams::{StreamDeps, StreamWatchers},
        threads, tool_claims, trash, users,
    },
    wakeups,
};

impl Service {
    /// Starts the background tasks. Must be called inside a tokio runtime. No other function knows all parts of the
    /// engine.
    pub fn start(ports: Ports) -> Self {
        let Ports { store, clock: machine, lock, bus, witness, timing, limits, node_name, space } = ports;
        let clock = store.clock().clone();
        let (lifecycle, metrics, quota) = (Lifecycle::default(), Metrics::new(), Quota::new(limits));
        let cores = thread::available_parallelism().map_or(WORK_SLOTS, usize::from);
        let memory = MemoryBudget::new(limits.memory, limits.body_memory);
        let queue = FairQueue::new(cores.max(WORK_SLOTS), quota.clone());
        let free = free_space::FreeSpace::default();
        let stored = StoredBytes::new(store.clone(), quota.clone(), free.clone());
        let node = NodeId::generate();
        let hub = Arc::new(Hub::new(metrics.clone(), memory.clone()));
        let directory = Directory::new(store.clone());
        let BusEnd { bus, heard } = bus;

        let (committer, appends) = committer::Committer::new(store.pipelines());
        let (heartbeats, beats) = heartbeats::Heartbeats::new();
        let (snapshots, unprojected) = snapshots::Snapshots::new();
        let feed_writer = Arc::new(feed_writer::FeedWriter::default());
        let notices = Arc::new(run_notices::RunNotices::new(metrics.clone()));
        let lock_guard =
            lock_guard::LockGuard::new(lock, timing.heartbeat, store.clone(), clock.clone(), metrics.clone());
        let lock_guard = Arc::new(lock_guard);

        let removals = Arc::new(Removals::default());
        let cutoffs = Arc::new(Cutoffs::new(store.clone(), removals.clone()));
        let trail = Arc::new(Trail::new(store.clone(), node));
        let listeners = Listeners::new(
            vec![
                Box::new(directory.clone()),
                // Before the other listeners: readers of this node get events from memory.
                Box::new(hub.clone()),
                Box::new(wakeups::TellOthers(bus.clone())),
                Box::new(lock_guard.clone()),
                Box::new(LogCounters(metrics.clone())),
                Box::new(stored.clone()),
                Box::new(snapshots),
                Box::new(notices.clone()),
                Box::new(feed_writer.clone()),
                Box::new(removals.clone()),
            ],
            lifecycle.failed.clone(),
        );
        let commits = pipeline::CommitCount::default();
        let queues = Arc::new(advance::Queues {
            store: store.clone(),
            clock: clock.clone(),
            cutoffs: cutoffs.clone(),
            metrics: metrics.clone(),
            listeners: listeners.clone(),
            work: tokio::sync::Notify::new(),
        });
        let pipeline = Arc::new(pipeline::Pipeline {
            store: store.clone(),
            clock: clock.clone(),
            directory: directory.clone(),
            metrics: metrics.clone(),
            listeners: listeners.clone(),
            lifecycle: lifecycle.clone(),
            commits: commits.clone(),
            queues: queues.clone(),
        });
        let closer = close::Closer {
            store: store.clone(),
            metrics: metrics.clone(),
            listeners: listeners.clone(),
            queues: queues.clone(),
        };
        let folder =
            Folder { store: store.clone(), metrics: metrics.clone(), memory: memory.clone(), quota: quota.clone() };
        let census = Arc::new(followers::FollowerDirectory::new(node, hub.clone(), bus.clone()));
        let recheck = recheck::Recheck { store: store.clone(), hub: hub.clone() };
        let stream_watchers = StreamWatchers::new(bus.clone());
        let wakeups = Arc::new(wakeups::Wakeups {
            bus: bus.clone(),
            hub: hub.clone(),
            census: census.clone(),
            recheck: recheck.clone(),
            streams: stream_watchers.clone(),
            metrics: metrics.clone(),
            lifecycle: lifecycle.clone(),
        });
        let users = Users {
            deps: Arc::new(users::UserDeps {
                store: store.clone(),
                clock: clock.clone(),
                hub: hub.clone(),
                bus: bus.clone(),
                listeners: listeners.clone(),
                removals: removals.clone(),
                cutoffs: cutoffs.clone(),
                lifecycle: lifecycle.clone(),
            }),
        };
        let lineage_keeper = lineage::LineageKeeper {
            store: store.clone(),
            hub: hub.clone(),
            directory: directory.clone(),
            recheck: recheck.clone(),
            metrics: metrics.clone(),
            lifecycle: lifecycle.clone(),
            users: users.clone(),
        };
        let steps = nodes::steps::Steps::new(store.clone(), metrics.clone(), lifecycle.clone(), node);
        let steps = Arc::new(steps);
        let guard = Arc::new(clock_guard::ClockGuard {
            store: store.clone(),
            machine: machine.clone(),
            metrics: metrics.clone(),
            node,
            steps: steps.clone(),
        });
        let retention = Arc::new(retention::Retention {
            store: store.clone(),
            guard: guard.clone(),
            metrics: metrics.clone(),
            listeners: listeners.clone(),
            feed_writer: feed_writer.clone(),
            lifecycle: lifecycle.clone(),
        });
        let job_work = Arc::new(jobs::JobWork {
            store: store.clone(),
            lifecycle: lifecycle.clone(),
            metrics: metrics.clone(),
            commits,
            guard: guard.clone(),
            retention: retention.clone(),
            stored: stored.clone(),
        });
        let (in_store, counts, life) = (store.clone(), metrics.clone(), lifecycle.clone());
        let node_beats =
            Arc::new(nodes::NodeBeats::new(in_store, machine, counts, life, node, node_name, steps.clone()));
        let beats_of_node = node_beats.clone();
        let health = Arc::new(health::Health {
            store: store.clone(),
            beats: node_beats.clone(),
            metrics: metrics.clone(),
            lock_guard: lock_guard.clone(),
            lifecycle: lifecycle.clone(),
            bus: bus.clone(),
            witness,
            redis: watch::Sender::new(None),
            durability: watch::Sender::new(None),
        });

        for appends in appends {
            lifecycle.supervise("committer::run", committer::run(pipeline.clone(), appends));
        }
        let feeds = feed_writer::FeedWork { store: store.clone(), hub: hub.clone(), bus: bus.clone() };
        let life = || lifecycle.clone();
        lifecycle.supervise("lock_guard::run", lock_guard::run(lock_guard.clone(), life()));
        lifecycle.supervise("wakeups::hear", wakeups::hear(wakeups.clone(), heard));
        lifecycle.supervise("wakeups::listen", wakeups::listen(wakeups));
        lifecycle.supervise("heartbeats::run", heartbeats::run(store.clone(), life(), beats));
        lifecycle.supervise("feed_writer::run", feed_writer::run(feeds, feed_writer.clone(), life()));
        for kind in JobKind::ALL {
            lifecycle.supervise("jobs::run", jobs::run(job_work.clone(), kind));
        }
        lifecycle.supervise("jobs::measure", jobs::measure(job_work));
        lifecycle.supervise("sweeps::run", sweeps::run(store.clone(), clock.clone(), life()));
        lifecycle.supervise("usage::run", usage::run(store.clone(), stored.clone(), life()));
        lifecycle.supervise("agent_data::run", agent_data::run(store.clone(), life()));
        if let Some(space) = space {
            lifecycle.supervise("free_space::run", free_space::run(free, space, life()));
        }
        lifecycle.supervise("cutoffs::run", cutoffs::run(cutoffs.clone(), life()));
        lifecycle.supervise("trail::run", trail::run(trail.clone(), life()));
        let credential_sweep = Arc::new(CredentialSweep {
            store: store.clone(),
            guard,
            cutoffs: cutoffs.clone(),
            lifecycle: lifecycle.clone(),
        });
        lifecycle.supervise("credentials::sweep", sweep::run(credential_sweep.clone()));
        lifecycle.supervise("snapshots::run", snapshots::run(folder.clone(), life(), unprojected));
        lifecycle.supervise("nodes::run", nodes::run(node_beats));
        lifecycle.supervise("steps::run", nodes::steps::run(steps));
        lifecycle.supervise("lineage::run", lineage::run(lineage_keeper));
        lifecycle.supervise("health::watch_durability", health::watch_durability(health.clone()));
        lifecycle.supervise("health::watch_redis", health::watch_redis(health.clone()));
        lifecycle.supervise("reaper::run", reaper::run(closer.clone(), life()));
        lifecycle.supervise("recheck::run", recheck.run(life()));
        lifecycle.supervise("rings::run", rings::run(hub.clone(), memory.clone(), life()));
        lifecycle.supervise("retention::run", retention::run(retention.clone()));

        let threads = Threads {
            deps: Arc::new(threads::ThreadDeps {
                store: store.clone(),
                directory: directory.clone(),
                feed_writer: feed_writer.clone(),
                listeners: listeners.clone(),
                lifecycle: lifecycle.clone(),
                queue: queue.clone(),
                stored: stored.clone(),
            }),
        };
        let trash = Trash {
            deps: Arc::new(trash::TrashDeps {
                store: store.clone(),
                clock: clock.clone(),
                feed_writer: feed_writer.clone(),
                lifecycle: lifecycle.clone(),
            }),
        };
        let runs = Runs {
            deps: Arc::new(runs::RunDeps {
                store: store.clone(),
                directory: directory.clone(),
                committer: committer.clone(),
                heartbeats,
                closer,
                lock_guard,
                turns: Arc::new(turns::Turns::new(node, beats_of_node)),
                queues,
                feed_writer: feed_writer.clone(),
                hub: hub.clone(),
                quota: quota.clone(),
                stored: stored.clone(),
                metrics: metrics.clone(),
                listeners: listeners.clone(),
                lifecycle: lifecycle.clone(),
                lease: timing.ttl.clamp(MIN_LEASE, MAX_LEASE),
            }),
        };
        let forks = Forks {
            deps: Arc::new(forks::ForkDeps {
                store: store.clone(),
                clock: clock.clone(),
                directory: directory.clone(),
                feed_writer,
                lifecycle: lifecycle.clone(),
                queue: queue.clone(),
                quota: quota.clone(),
                memory: memory.clone(),
                stored: stored.clone(),
            }),
        };
        let projections = Projections { directory: directory.clone(), folder, queue: queue.clone() };
        let conversations = Conversations {
            clock: clock.clone(),
            threads: threads.clone(),
            runs: runs.clone(),
            projections: projections.clone(),
        };
        let attempts = Attempts { runs: runs.clone(), projections: projections.clone() };
        let events = Events {
            deps: Arc::new(events::EventDeps {
                store: store.clone(),
                clock: clock.clone(),
                directory: directory.clone(),
                hub: hub.clone(),
                metrics: metrics.clone(),
                lifecycle: lifecycle.clone(),
                queue: queue.clone(),
                quota: quota.clone(),
            }),
        };
        let counters = metrics.clone();
        let feed = Feed {
            deps: Arc::new(feed::FeedDeps {
                store: store.clone(),
                hub: hub.clone(),
                metrics,
                lifecycle: lifecycle.clone(),
            }),
        };
        let validations = Validations::new(store.clone(), directory.clone(), queue.clone(), memory.clone());
        let tool_claims = ToolClaims {
            deps: Arc::new(tool_claims::ToolClaimDeps {
                store: store.clone(),
                directory: directory.clone(),
                projections: projections.clone(),
                lifecycle: lifecycle.clone(),
            }),
        };
        let deps_of_agent_data = AgentDataDeps::new(
            store.clone(),
            directory.clone(),
            queue.clone(),
            stored.clone(),
            counters,
            lifecycle.clone(),
        );
        let items = ItemLists { deps: deps_of_agent_data.clone() };
        let checkpoints = Checkpoints { deps: deps_of_agent_data.clone() };
        let api_records = ApiRecords { deps: deps_of_agent_data.clone() };
        let deps_of_streams = StreamDeps::new(deps_of_agent_data.clone(), clock.clone(), stream_watchers);
        let streams = Streams { deps: deps_of_streams };
        let kv = KvEntries { deps: deps_of_agent_data };
        let annotations = Annotations {
            deps: Arc::new(annotations::AnnotationDeps {
                store: store.clone(),
                directory,
                stored: stored.clone(),
                lifecycle: lifecycle.clone(),
            }),
        };
        Self {
            threads,
            runs,
            attempts,
            forks,
            conversations,
            events,
            followers: Followers { store: store.clone(), census },
            feed,
            agents: AgentDefinitions { store, clock: clock.clone() },
            annotations,
            items,
            checkpoints,
            kv,
            api_records,
            streams,
            validations,
            tool_claims,
            projections,
            users,
            trash,
            quota,
            stored,
            queue,
            memory,
            hub,
            clock,
            committer,
            health,
            notices,
            retention,
            credential_sweep,
            removals,
            cutoffs,
            trail,
            lifecycle,
        }
    }
}
