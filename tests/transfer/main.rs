//! Moving: a data directory of an earlier release opens with the same bytes, and what is exported is imported as it was.

#[allow(dead_code, unused_imports, unused_macros)]
#[path = "../e2e/harness/mod.rs"]
mod harness;

mod annotations;
mod branches;
mod checkpoints;
mod claimed;
mod command;
mod cycle;
mod damage;
#[path = "../shared/damaged_page.rs"]
mod damaged_page;
mod fixture;
mod inbox;
mod items;
mod keys;
mod killed;
mod kv;
mod seen;
mod streams;
mod verify;

use threadline_backing as backing;
use threadline_testkit::through;
