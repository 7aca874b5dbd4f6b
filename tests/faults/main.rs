//! Faults: the real binary is killed, starved, filled up and stopped, and the answers to its clients are compared with
//! the data afterwards. `THREADLINE_SEED` repeats a run.
//!
//! Needs Linux and `strace`. A tool that is missing fails a test; nothing is skipped.

mod api;
mod calls;
mod check;
mod churn;
mod disk;
mod files;
mod follow;
mod full;
mod kills;
mod leaving;
mod load;
mod neighbour;
mod order;
mod private;
mod producers;
mod raw;
mod secrets;
mod server;
mod shutdown;
mod sockets;
mod stuck;
mod told;
mod trace;

use threadline_testkit::{judge, record, reply, rng, seen};

use std::sync::OnceLock;

use tokio::sync::{Mutex, MutexGuard};

/// These tests measure times and sizes: one after the other.
async fn turn() -> MutexGuard<'static, ()> {
    static TURN: OnceLock<Mutex<()>> = OnceLock::new();
    TURN.get_or_init(Mutex::default).lock().await
}
