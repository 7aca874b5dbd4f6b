//! A load balancer: asks every node in turn whether it is ready, and writes down when it says so.

use std::{sync::Arc, time::Duration};

use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::{
    history::{Line, now},
    world::World,
};

/// Between two questions to a node.
const PACE: Duration = Duration::from_millis(500);

/// Asks until the load ends.
pub async fn ask(world: Arc<World>) {
    let history = world.history("probes");
    let mut pace = interval(PACE);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while world.is_running() {
        pace.tick().await;
        for (node, url) in world.urls.iter().enumerate() {
            let at = now();
            let answer = timeout(PACE, world.http.get(format!("{url}/readyz")).send()).await;
            if answer.is_ok_and(|answer| answer.is_ok_and(|answer| answer.status() == 200)) {
                history.write(&Line::Ready { at, done: now(), node });
            }
        }
    }
    history.flush();
}
