//! Wake-ups between nodes: what changes here is told on the bus, and what is heard there is looked up in the store.

use std::collections::BTreeSet;

use tokio::sync::mpsc;

use super::{context::Context, followers, reaper};
use crate::{
    bus::{Channel, Heard, Hint, ThreadNews},
    domain::{ThreadKey, limits::BUS_QUEUE},
    planted::{Bug, planted},
    subscription::{FeedKey, TopicState},
};

/// What is to be looked up.
#[derive(Debug, Default)]
struct Wanted {
    threads: BTreeSet<ThreadKey>,
    feeds: BTreeSet<FeedKey>,
    all: bool,
}

impl Wanted {
    /// What is known here already is no news.
    fn take_in(&mut self, context: &Context, heard: Heard) {
        match heard {
            Heard::Hint(Hint::Thread(key, news)) if planted(Bug::HintSetsTail) => {
                context.hub.advance(key, &TopicState::from(&news));
            }
            Heard::Hint(Hint::Thread(key, news)) if context.hub.lacks(key, &TopicState::from(&news)) => {
                self.threads.insert(key);
            }
            Heard::Hint(Hint::Feed(project, user, head)) => {
                let feed = (project, user);
                // 0 is the word of a feed that was erased.
                if head == 0 || context.hub.lacks_feed(&feed, head) {
                    self.feeds.insert(feed);
                }
            }
            Heard::Hint(Hint::Thread(..)) => {}
            Heard::Hint(Hint::Question(question)) => followers::answer(context, &question),
            Heard::Hint(Hint::Answer { number, body, .. }) => followers::take(context, number, &body),
            // What was asked meanwhile is answered by others, or not at all.
            Heard::Listening(Channel::Questions | Channel::Answers(_)) => {}
            Heard::Listening(Channel::Thread(key)) => drop(self.threads.insert(key)),
            Heard::Listening(Channel::Feed(project, user)) => drop(self.feeds.insert((project, user))),
            Heard::Resync => {
                context.metrics.bus_resyncs.inc();
                self.all = true;
            }
        }
    }
}

/// The loop that listens. What is heard while one look at the store is under way shares the next.
pub(super) async fn hear(context: Context, mut heard: mpsc::Receiver<Heard>) {
    let mut news = Vec::new();
    loop {
        tokio::select! {
            count = heard.recv_many(&mut news, BUS_QUEUE) => if count == 0 {
                // Without a bus there is the recheck.
                return context.stopped().await;
            },
            () = context.stopped() => return,
        }
        let mut wanted = Wanted::default();
        for heard in news.drain(..) {
            wanted.take_in(&context, heard);
        }
        if wanted.all {
            reaper::recheck_all(&context).await;
            continue;
        }
        let threads: Vec<_> = wanted.threads.into_iter().collect();
        let feeds: Vec<_> = wanted.feeds.into_iter().collect();
        // What fails here the recheck will find.
        reaper::look_up(&context, &threads, &feeds).await;
    }
}

/// The loop that keeps the bus listening to what is followed here, and to nothing else.
pub(super) async fn listen(context: Context) {
    followers::channels(context.node).into_iter().for_each(|channel| context.bus.listen(channel));
    loop {
        tokio::select! {
            keys = context.hub.followed_changed() => for key in keys {
                choose(&context, context.hub.is_followed(key), Channel::Thread(key));
            },
            feeds = context.hub.followed_feeds_changed() => for feed in feeds {
                let followed = context.hub.is_feed_followed(&feed);
                choose(&context, followed, Channel::Feed(feed.0, feed.1));
            },
            () = context.stopped() => return,
        }
    }
}

fn choose(context: &Context, followed: bool, channel: Channel) {
    if followed { context.bus.listen(channel) } else { context.bus.ignore(&channel) }
}

/// Tells the other nodes of a thread's head.
pub(super) fn tell(context: &Context, key: ThreadKey, state: &TopicState) {
    context.bus.tell(Hint::Thread(key, ThreadNews::from(state)));
}
