//! Reconnect of a client with its cursor: the time until it has received every missed event, including the connect.

use super::{
    BenchError, Plan,
    generate::Events,
    measure::median,
    replay,
    report::{Budget, Report},
    seeded,
    socket::Http,
};

/// Reconnects in one measurement of the nearer cursor.
const RETURNS: usize = 20;

/// Measures reconnects at both cursors.
pub async fn measure(plan: &Plan, report: &mut Report) -> Result<(), BenchError> {
    report.progress("writing and sealing a long thread");
    let place = plan.ground.place().await?;
    let long = seeded::thread(&place, Events::new(21).take(plan.events as usize)).await?;
    let server = place.serve()?;
    let epoch = Http::new(server.address()).epoch(&long.run.thread).await?;
    let (mut near, mut far) = (Vec::new(), Vec::new());
    for round in 0..plan.pairs {
        report.progress(&format!("coming back, round {} of {}", round + 1, plan.pairs));
        let returned = async |behind: u64| -> Result<f64, BenchError> {
            let after = long.events.saturating_sub(behind);
            let cursor = (after, Some(&*epoch));
            Ok(replay::read(server.address(), &long.run.thread, cursor, long.events).await?.0 * 1e3)
        };
        for _ in 0..RETURNS {
            near.push(returned(1_000).await?);
        }
        far.push(returned(100_000).await?);
    }
    let (near, far) = (median(near), median(far));
    report.key("resume.ms_1k", near);
    report.key("resume.ms_100k", far);
    report.row("coming back 1,000 events behind, with connecting", "ms", near, None, None, Budget::None);
    report.row("coming back 100,000 events behind, with connecting", "ms", far, None, None, Budget::None);
    Ok(())
}
