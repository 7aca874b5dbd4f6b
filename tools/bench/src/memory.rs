//! Memory of an idle subscriber: the server's resident memory with many subscribers, less that without them.

use super::{
    BenchError, Plan,
    process::{self, Process},
    report::{Budget, Report},
    socket::{Http, Socket},
};

/// Open files that this process needs in addition to the subscribers' sockets.
const SPARE: u64 = 256;
/// Threads that the subscribers follow, in turn.
const THREADS: usize = 500;

/// Measures the bytes per subscriber.
pub async fn measure(plan: &Plan, report: &mut Report) -> Result<(), BenchError> {
    // The server has the same limit, and needs one file for each subscriber as well.
    let room = process::raise_file_limit().saturating_sub(SPARE) as usize;
    let count = plan.idle.min(room);
    if count < plan.idle {
        report.note(&format!("only {count} idle subscribers: too few files may be open at once (ulimit -n)"));
    }
    let place = plan.ground.place().await?;
    let server = place.serve()?;
    let http = Http::new(server.address());
    let mut threads = Vec::with_capacity(THREADS);
    for _ in 0..THREADS.min(count) {
        threads.push(http.create().await?);
    }
    // Memory that is allocated once, with the first subscriber, does not count.
    subscribe(&server, &threads[0]).await?;
    let Some(before) = server.resident_bytes() else {
        report.note("the memory of the server cannot be read on this system (no /proc)");
        return Ok(());
    };
    let mut sockets = Vec::with_capacity(count);
    for number in 0..count {
        if number % 100 == 0 {
            report.progress(&format!("idle subscribers, {number} of {count}"));
        }
        sockets.push(subscribe(&server, &threads[number % threads.len()]).await?);
    }
    let after = server.resident_bytes().unwrap_or(before);
    let each = after.saturating_sub(before) as f64 / count as f64;
    report.key("memory.bytes_per_idle_subscriber", each);
    report.key("memory.idle_subscribers", count as f64);
    report.row("memory of an idle subscriber", "B", each, None, None, Budget::AtMost(24.0 * 1_024.0));
    Ok(())
}

/// Opens a socket that follows a thread and has caught up.
async fn subscribe(server: &Process, thread: &str) -> Result<Socket, BenchError> {
    let mut socket = Socket::open(server.address()).await?;
    socket.follow(thread).await?;
    Ok(socket)
}
