//! The contract of the bus port. Every test runs in process and over Redis.

use std::time::Duration;

use threadline_core::{
    Epoch, FeedCursor, Fence, Generation, NodeId, ProjectId, RunId, ThreadKey, UserId, limits::BUS_QUEUE,
    streams::StreamKey,
};
use threadline_engine::cluster::{
    bus::{self, BusEnd, BusMessage, Channel, Hint, Question, StreamNews, ThreadNews, local::LocalBus},
    redis_servers::RedisServers,
};
use tokio::time;

/// Far more than a hint takes, so that a test that waits in vain fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// A bus under test, and nodes on it.
pub enum Net {
    Local(LocalBus),
    Redis { url: String, prefix: String },
}

impl Net {
    pub fn local() -> Self {
        Self::Local(LocalBus::default())
    }

    /// Every test has channels of its own in the Redis of this URL.
    pub fn redis(url: String) -> Self {
        Self::Redis { url, prefix: format!("{}:", RunId::generate()) }
    }

    async fn node(&self) -> BusEnd {
        match self {
            Self::Local(bus) => bus.join(),
            Self::Redis { url, prefix } => {
                let mut end = bus::redis::join(RedisServers::parse(url).expect("an address"), prefix);
                assert_eq!(next(&mut end).await, BusMessage::Resync, "a node begins by looking");
                end
            }
        }
    }

    /// A node that listens to these channels.
    async fn listening(&self, channels: &[Channel]) -> BusEnd {
        let mut end = self.node().await;
        for channel in channels {
            end.bus.listen(channel.clone());
            if matches!(self, Self::Redis { .. }) {
                assert_eq!(next(&mut end).await, BusMessage::Listening(channel.clone()));
            }
        }
        end
    }
}

async fn next(end: &mut BusEnd) -> BusMessage {
    time::timeout(PATIENCE, end.heard.recv()).await.expect("something is heard in time").expect("the bus is there")
}

fn thread(key: i64, tail: u64) -> Hint {
    let news = ThreadNews {
        generation: Generation(3),
        tail,
        fence: Fence(3),
        active: true,
        stop_requested: tail == 7,
        gone: false,
        queue: threadline_core::QueueState { version: 3, queued: 2, held: Some(threadline_core::Hold::Stop) },
    };
    Hint::Thread(ThreadKey(key), news)
}

fn feed(project: &str, user: &str, position: u64) -> Hint {
    let head = FeedCursor { epoch: Epoch::from_i64(7), position };
    Hint::Feed(ProjectId::new(project).expect("id"), UserId::new(user).expect("id"), head)
}

fn stream(key: i64, tail: u64, ended: bool) -> Hint {
    Hint::Stream(StreamKey(key), StreamNews { tail, ended })
}

pub async fn published_messages_arrive_on_other_nodes(net: Net) {
    let gone = ThreadNews {
        generation: Generation(0),
        tail: 0,
        fence: Fence(-1),
        active: true,
        stop_requested: false,
        gone: true,
        queue: threadline_core::QueueState::default(),
    };
    let hints = [
        thread(1, 5),
        thread(2, 7),
        Hint::Thread(ThreadKey(3), gone),
        feed("p", "u", 9),
        feed("a:b", "c: é", 1),
        stream(9, 9, false),
        stream(10, 10, true),
    ];
    let channels: Vec<_> = hints.iter().map(Hint::channel).collect();
    let (teller, mut listener) = (net.listening(&channels).await, net.listening(&channels).await);
    for hint in hints {
        teller.bus.tell(hint.clone());
        assert_eq!(next(&mut listener).await, BusMessage::Hint(hint));
    }
}

pub async fn the_newest_hint_arrives(net: Net) {
    let teller = net.node().await;
    let mut listener = net.listening(&[Channel::Thread(ThreadKey(1))]).await;
    for tail in 1..=500 {
        teller.bus.tell(thread(1, tail));
    }
    // Those before it may be left out.
    loop {
        if next(&mut listener).await == BusMessage::Hint(thread(1, 500)) {
            break;
        }
    }
}

pub async fn a_full_queue_ends_in_a_resync(net: Net) {
    let channels: Vec<_> = (0..=BUS_QUEUE as i64).map(|key| Channel::Thread(ThreadKey(key))).collect();
    let teller = net.node().await;
    let mut listener = net.node().await;
    for channel in &channels {
        listener.bus.listen(channel.clone());
    }
    let mut round = 0;
    let ends_in_a_resync = async {
        loop {
            // More than fits, then more once there is room: by then it is known that something is missing. A busy machine may
            // subscribe late, so that everything fits at first.
            for _ in 1..=2 {
                round += 1;
                for key in 0..=BUS_QUEUE as i64 {
                    teller.bus.tell(thread(key, round));
                }
                time::sleep(Duration::from_millis(300)).await;
            }
            while !listener.heard.is_empty() {
                if next(&mut listener).await == BusMessage::Resync {
                    return;
                }
            }
        }
    };
    time::timeout(Duration::from_secs(60), ends_in_a_resync).await.expect("a resync");
}

pub async fn a_node_that_left_does_not_disturb_the_others(net: Net) {
    let channel = [Channel::Feed(ProjectId::new("p").expect("id"), UserId::new("u").expect("id"))];
    let (teller, leaver) = (net.node().await, net.listening(&channel).await);
    let mut stayer = net.listening(&channel).await;
    drop(leaver);
    teller.bus.tell(feed("p", "u", 1));
    assert_eq!(next(&mut stayer).await, BusMessage::Hint(feed("p", "u", 1)));
}

pub async fn a_question_is_answered_to_the_node_that_asked(net: Net) {
    let nodes = [1, 2, 3].map(NodeId);
    let mut ends = Vec::new();
    for node in nodes {
        ends.push(net.listening(&[Channel::Questions, Channel::Answers(node)]).await);
    }
    assert!(ends[0].bus.has_others());
    // Several at once: no question is in the place of another.
    let questions = [7, 8].map(|number| Question { thread: ThreadKey(5), asker: nodes[0], number });
    for question in questions {
        ends[0].bus.tell(Hint::Question(question));
    }
    for (end, node) in ends.iter_mut().zip(nodes).skip(1) {
        let mut heard = [next(end).await, next(end).await];
        heard.sort_by_key(|heard| format!("{heard:?}"));
        assert_eq!(heard, questions.map(|question| BusMessage::Hint(Hint::Question(question))));
        for question in questions {
            let body = format!("{{\"node\":\"{node}\", \"number\": {}}}", question.number);
            end.bus.tell(Hint::Answer { asker: question.asker, number: question.number, body });
        }
    }
    let mut answers = Vec::new();
    while answers.len() < 4 {
        // In process every node receives every message, also answers to other nodes' questions.
        if let BusMessage::Hint(Hint::Answer { asker, number, body }) = next(&mut ends[0]).await {
            assert_eq!(asker, nodes[0]);
            answers.push((number, body));
        }
    }
    answers.sort();
    let expected = [7, 8]
        .map(|number| [2, 3].map(|node| (number, format!("{{\"node\":\"{}\", \"number\": {number}}}", NodeId(node)))));
    assert_eq!(answers, expected.concat());
}
