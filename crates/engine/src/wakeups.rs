//! Wake-ups between nodes: changes on this node are sent on the bus, and changes received are looked up in the store.

use std::{collections::BTreeSet, sync::Arc};

use threadline_core::{ThreadKey, limits::BUS_QUEUE};
use tokio::sync::mpsc;

use crate::{
    after_commit::{AfterCommit, Commit},
    cluster::bus::{BusMessage, Channel, DynBus, Hint, ThreadNews},
    lifecycle::Lifecycle,
    metrics::Metrics,
    read::{followers::FollowerDirectory, recheck::Recheck},
    subscription::{FeedKey, Hub, TopicState},
    usecases::streams::StreamWatchers,
};

/// Dependencies of the loops.
pub(crate) struct Wakeups {
    pub bus: DynBus,
    pub hub: Arc<Hub>,
    pub census: Arc<FollowerDirectory>,
    pub recheck: Recheck,
    pub streams: StreamWatchers,
    pub metrics: Metrics,
    pub lifecycle: Lifecycle,
}

/// Threads and feeds to look up in the store.
#[derive(Debug, Default)]
struct Wanted {
    threads: BTreeSet<ThreadKey>,
    feeds: BTreeSet<FeedKey>,
    all: bool,
}

impl Wanted {
    /// Handles a message; a change that this node already knows is ignored.
    fn take_in(&mut self, node: &Wakeups, heard: BusMessage) {
        match heard {
            BusMessage::Hint(Hint::Thread(key, news)) if node.hub.lacks(key, &TopicState::from(&news)) => {
                self.threads.insert(key);
            }
            BusMessage::Hint(Hint::Feed(project, user, head)) => {
                let feed = (project, user);
                if node.hub.lacks_feed(&feed, head) {
                    self.feeds.insert(feed);
                }
            }
            BusMessage::Hint(Hint::Thread(..)) => {}
            // Readers of a stream look at its row themselves.
            BusMessage::Hint(Hint::Stream(key, news)) => node.streams.note(key, news),
            BusMessage::Hint(Hint::Question(question)) => node.census.answer(&question),
            BusMessage::Hint(Hint::Answer { number, body, .. }) => node.census.take(number, &body),
            // A question missed meanwhile is answered by other nodes, or by none.
            BusMessage::Listening(Channel::Questions | Channel::Answers(_)) => {}
            BusMessage::Listening(Channel::Thread(key)) => drop(self.threads.insert(key)),
            BusMessage::Listening(Channel::Feed(project, user)) => drop(self.feeds.insert((project, user))),
            BusMessage::Listening(Channel::Stream(key)) => node.streams.look(key),
            BusMessage::Resync => {
                node.metrics.bus_resyncs.inc();
                self.all = true;
                node.streams.look_everywhere();
            }
        }
    }
}

/// Loop that receives messages. All messages that arrive during one read of the store share the next.
pub(crate) async fn hear(node: Arc<Wakeups>, mut heard: mpsc::Receiver<BusMessage>) {
    let mut news = Vec::new();
    loop {
        tokio::select! {
            count = heard.recv_many(&mut news, BUS_QUEUE) => if count == 0 {
                // Without a bus only the recheck finds changes.
                return node.lifecycle.stopped().await;
            },
            () = node.lifecycle.stopped() => return,
        }
        let mut wanted = Wanted::default();
        for heard in news.drain(..) {
            wanted.take_in(&node, heard);
        }
        if wanted.all {
            node.recheck.all().await;
            continue;
        }
        let threads: Vec<_> = wanted.threads.into_iter().collect();
        let feeds: Vec<_> = wanted.feeds.into_iter().collect();
        // The recheck repeats a failed lookup.
        node.recheck.look_up(&threads, &feeds).await;
    }
}

/// Loop that keeps the bus subscribed to exactly the threads and feeds followed here.
pub(crate) async fn listen(node: Arc<Wakeups>) {
    node.census.channels().into_iter().for_each(|channel| node.bus.listen(channel));
    loop {
        tokio::select! {
            keys = node.hub.followed_changed() => for key in keys {
                choose(&node.bus, node.hub.is_followed(key), Channel::Thread(key));
            },
            feeds = node.hub.followed_feeds_changed() => for feed in feeds {
                let followed = node.hub.is_feed_followed(&feed);
                choose(&node.bus, followed, Channel::Feed(feed.0, feed.1));
            },
            () = node.lifecycle.stopped() => return,
        }
    }
}

fn choose(bus: &DynBus, followed: bool, channel: Channel) {
    if followed { bus.listen(channel) } else { bus.ignore(&channel) }
}

/// Listener that sends a thread's new head to the other nodes.
pub(crate) struct TellOthers(pub DynBus);

impl AfterCommit for TellOthers {
    fn committed(&self, commit: &Commit<'_>) {
        self.topic_changed(commit.thread.key, &TopicState::committed(commit.head));
    }

    fn topic_changed(&self, key: ThreadKey, state: &TopicState) {
        self.0.tell(Hint::Thread(key, ThreadNews::from(state)));
    }
}
