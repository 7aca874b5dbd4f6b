//! Durable appends at the store port: 100 writers, batches of 32, compared with the bare program.

use std::{sync::Arc, time::Duration, time::Instant};

use bytes::Bytes;
use tokio::task::JoinSet;

use super::{
    BenchError, Plan, bare,
    generate::Events,
    measure::Pairs,
    place::{Place, Store},
    report::{Budget, Report},
};
use threadline_core::{Clock, NewEvents, Principal, ProjectId, RunId, ThreadId, UserId};
use threadline_engine::{CreateThread, CreatedThread, Ports, Service, ServiceError, StartRequest};

const WRITERS: usize = 100;
const BATCH: usize = 32;
/// Number of different batches, so that no cache has an advantage.
const BODIES: usize = 256;

/// Measures both sides in pairs.
pub async fn measure(plan: &Plan, report: &mut Report) -> Result<(), BenchError> {
    let lines: Vec<String> = Events::new(1).take(BODIES * BATCH).collect();
    let bodies: Vec<Bytes> = lines.chunks(BATCH).map(|chunk| Bytes::from(chunk.join("\n"))).collect();
    let mut pairs = Pairs::default();
    for pair in 0..plan.pairs {
        report.progress(&format!("append at the store port, pair {} of {}", pair + 1, plan.pairs));
        let (ours_place, bare_place) = (plan.ground.place().await?, plan.ground.place().await?);
        // The second side finds a warmer machine, so the order alternates.
        let (ours, bare);
        if pair % 2 == 0 {
            ours = append(&ours_place, &bodies, plan.span).await?;
            bare = bare::append(&bare_place, WRITERS, BATCH, &bodies, plan.span).await?;
        } else {
            bare = bare::append(&bare_place, WRITERS, BATCH, &bodies, plan.span).await?;
            ours = append(&ours_place, &bodies, plan.span).await?;
        }
        pairs.push(ours, bare);
    }
    report.key("append.store_events_per_s", pairs.ours());
    report.key("append.bare_events_per_s", pairs.bare());
    report.key("append.store_ratio_to_bare", pairs.ratio());
    report.row(
        "append, store port: 100 writers × 32 events",
        "events/s",
        pairs.ours(),
        Some(pairs.bare()),
        Some(pairs.ratio()),
        Budget::RatioAtLeast(0.7),
    );
    Ok(())
}

/// Store with its service, as in the server.
pub struct Embedded {
    store: Store,
    pub service: Service,
    pub principal: Principal,
}

impl Embedded {
    /// Opens the store in a place.
    pub async fn open(place: &Place, clock: Clock) -> Result<Self, BenchError> {
        let store = place.store(clock.clone()).await?;
        let service = Service::start(Ports::alone(store.port(), clock));
        let id = |error| BenchError::Unexpected(format!("{error}"));
        let (project, user) = (ProjectId::new("default").map_err(id)?, UserId::new("dev").map_err(id)?);
        Ok(Self { store, service, principal: Principal::user(project, user) })
    }

    /// Creates a thread with a run.
    pub async fn start_run(&self) -> Result<(ThreadId, RunId), ServiceError> {
        let CreatedThread { thread, .. } =
            self.service.threads.create(&self.principal, CreateThread::default()).await?;
        let start = StartRequest { lease: Some(Duration::from_secs(3_600)), ..StartRequest::default() };
        let started = self.service.runs.start(&self.principal, &thread.id, start).await?;
        Ok((thread.id, started.run.id))
    }

    /// Stops the service's tasks and closes the store.
    pub async fn close(self) {
        self.service.drain();
        self.service.stop().await;
        self.store.close().await;
    }
}

async fn append(place: &Place, bodies: &[Bytes], span: Duration) -> Result<f64, BenchError> {
    let invalid = |error| BenchError::Unexpected(format!("{error}"));
    let batches: Result<Vec<_>, _> = bodies.iter().map(|body| NewEvents::from_ndjson(body)).collect();
    let batches: Arc<[NewEvents]> = batches.map_err(invalid)?.into();
    let embedded = Embedded::open(place, Clock::system()).await?;
    let mut runs = Vec::with_capacity(WRITERS);
    for _ in 0..WRITERS {
        runs.push(embedded.start_run().await?);
    }
    let (start, mut tasks) = (Instant::now(), JoinSet::new());
    for (writer, (thread, run)) in runs.into_iter().enumerate() {
        let (service, principal, batches) =
            (embedded.service.runs.clone(), embedded.principal.clone(), batches.clone());
        tasks.spawn(async move {
            let mut appended = 0;
            for number in writer.. {
                let events = batches[number % batches.len()].clone();
                let receipt = service.append(&principal, &thread, &run, Some(appended + 1), events).await?;
                appended += BATCH as u64;
                debug_assert_eq!(receipt.producer_seq, appended);
                if start.elapsed() >= span {
                    break;
                }
            }
            Ok::<_, ServiceError>(appended)
        });
    }
    let mut appended = 0;
    while let Some(task) = tasks.join_next().await {
        appended += task??;
    }
    let rate = appended as f64 / start.elapsed().as_secs_f64();
    embedded.close().await;
    Ok(rate)
}
