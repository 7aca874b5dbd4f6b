//! Moving: a data directory of an earlier release opens with the same bytes, and what is exported is imported as it was.

#[allow(dead_code, unused_imports, unused_macros)]
#[path = "../e2e/harness/mod.rs"]
mod harness;

mod annotations;
#[path = "../backing/mod.rs"]
mod backing;
mod command;
mod cycle;
mod damage;
mod fixture;
mod keys;
mod killed;
mod seen;
#[allow(dead_code)]
#[path = "../shared/through.rs"]
mod through;
