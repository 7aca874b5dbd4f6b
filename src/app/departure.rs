//! Departure of a node that another process or its successor replaces: clients move elsewhere before it shuts down.

use threadline_core::limits::DEPARTURE_CHECK;
use threadline_engine::Service;
use tokio::time;
use tokio_util::task::TaskTracker;

use crate::{agents::Agents, config::DrainTimes};

/// Lets balancers notice that the node departs, then closes sockets and streams while active runs of agents end. All the
/// while connections are accepted.
pub(super) async fn depart(service: &Service, agents: &Agents, open: &TaskTracker, times: DrainTimes) {
    let DrainTimes { delay, spread, runs } = times;
    tracing::info!(
        "draining: not ready, but serving requests for {} s; a second signal ends the drain",
        delay.as_secs()
    );
    service.leaving().cancel();
    time::sleep(delay).await;
    tracing::info!(
        "draining: closing streams and sockets over {} s; runs of agents have {} s to end",
        spread.as_secs(),
        runs.as_secs()
    );
    service.closing().begin(spread);
    let closed = async {
        let mut check = time::interval(DEPARTURE_CHECK);
        while !open.is_empty() {
            check.tick().await;
        }
    };
    // Connections and runs that are left when the time is over end with the shutdown.
    let _ = tokio::join!(time::timeout(spread, closed), time::timeout(runs, agents.rest()));
}
