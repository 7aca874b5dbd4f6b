//! Moving: a data directory of an earlier release opens with the same bytes, and what is exported is imported as it was.

#[allow(dead_code, unused_imports, unused_macros)]
#[path = "../e2e/harness/mod.rs"]
mod harness;

mod command;
mod cycle;
mod damage;
mod fixture;
mod killed;
mod seen;
