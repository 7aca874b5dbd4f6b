//! Chaos: three real nodes on a real Postgres and a real Redis, all of which are killed, stopped, cut off and starved
//! while producers and readers work; then a checker in a process of its own compares what clients were told with what
//! is there. `make chaos MINUTES=10` runs it for long, `make chaos PLANT=name` with a bug that it must find.

#[path = "../backing/mod.rs"]
mod backing;
mod check;
mod history;
