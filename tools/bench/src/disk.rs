//! Bytes of an event on disk, by the pages in use: of a long, sealed thread, and of a short one.

use super::{
    BenchError, Plan,
    generate::Events,
    report::{Budget, Report},
    seeded,
};

/// Events of the short thread.
const SHORT: usize = 200;

/// Measures the bytes per event.
pub async fn measure(plan: &Plan, report: &mut Report) -> Result<(), BenchError> {
    report.progress("bytes on disk of a long thread");
    let place = plan.ground.place().await?;
    let long = seeded::thread(&place, Events::new(11).take(plan.events as usize)).await?;
    report.progress("bytes on disk of a thread of 200 events");
    let place = plan.ground.place().await?;
    let short = seeded::thread(&place, Events::new(11).take(SHORT)).await?;
    report.key("disk.bytes_per_event_sealed", long.stored);
    report.key("disk.bytes_per_event_200", short.stored);
    report.key("disk.raw_bytes_per_event", long.raw);
    let what = "stored, sealed (bare: the events alone)";
    report.row(what, "B/event", long.stored, Some(long.raw), None, Budget::AtMost(18.0));
    report.row("stored, a thread of 200 events", "B/event", short.stored, Some(short.raw), None, Budget::None);
    Ok(())
}
