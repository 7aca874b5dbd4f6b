//! Nodes and their beats.

use std::time::Duration;

use threadline_core::{Node, NodeId};
use threadline_store::NewBeat;

use crate::support::Env;

pub fn beat(node: u64) -> NewBeat {
    let name = format!("machine-{node}");
    NewBeat { node: NodeId(node), name, version: "1.2.3", leaving: false, skew_ms: None, rtt_us: None, step_ms: None }
}

async fn list(env: &Env) -> Vec<Node> {
    env.store.nodes(10).await.expect("lists").1
}

pub async fn a_beat_is_numbered_and_has_the_time_of_the_store(env: Env) {
    let begun = env.clock.now();
    for number in 1..=3 {
        let beat = env.store.put_beat(&beat(1)).await.expect("commits");
        assert_eq!((beat.number, beat.at), (number, env.clock.now()));
        env.clock.advance(Duration::from_secs(1));
    }
    // Another process has numbers of its own.
    assert_eq!(env.store.put_beat(&beat(2)).await.expect("commits").number, 1);
    let nodes = list(&env).await;
    let facts: Vec<_> = nodes.iter().map(|node| (node.id.0, node.beat, node.started_at)).collect();
    assert_eq!(facts, [(2, 1, env.clock.now()), (1, 3, begun)]);
}

pub async fn nodes_are_listed_as_their_last_beats_describe_them(env: Env) {
    let (now, nodes) = env.store.nodes(10).await.expect("lists");
    assert_eq!(nodes, []);
    assert!(now <= env.clock.now());
    env.store.put_beat(&beat(u64::MAX)).await.expect("commits");
    env.clock.advance(Duration::from_secs(2));
    let last =
        NewBeat { leaving: true, skew_ms: Some(-7), rtt_us: Some(1_500), step_ms: Some(9_000), ..beat(u64::MAX) };
    env.store.put_beat(&last).await.expect("commits");
    // A beat that was delayed does not bring the node back.
    env.store.put_beat(&NewBeat { leaving: false, ..last.clone() }).await.expect("commits");
    let (now, nodes) = env.store.nodes(10).await.expect("lists");
    assert_eq!(now, env.clock.now());
    let expected = Node {
        id: NodeId(u64::MAX),
        name: last.name,
        version: "1.2.3".to_owned(),
        started_at: now.minus(Duration::from_secs(2)),
        beat: 3,
        at: now,
        leaving: true,
        skew_ms: Some(-7),
        rtt_us: Some(1_500),
        step_ms: Some(9_000),
    };
    assert_eq!(nodes, [expected]);
}

pub async fn nodes_without_a_beat_for_long_are_forgotten(env: Env) {
    let ids = async || list(&env).await.iter().map(|node| node.id.0).collect::<Vec<_>>();
    env.store.put_beat(&beat(1)).await.expect("commits");
    env.clock.advance(Duration::from_secs(10));
    env.store.put_beat(&beat(2)).await.expect("commits");
    env.store.forget_nodes(Duration::from_secs(11)).await.expect("forgets");
    assert_eq!(ids().await, [2, 1]);
    let first = env.store.nodes(1).await.expect("lists").1;
    assert_eq!(first.iter().map(|node| node.id.0).collect::<Vec<_>>(), [2]);
    env.store.forget_nodes(Duration::from_secs(10)).await.expect("forgets");
    assert_eq!(ids().await, [2]);
    // A process that was forgotten begins anew.
    assert_eq!(env.store.put_beat(&beat(1)).await.expect("commits").number, 1);
}
