//! The projection of a conversation and the closing of runs against the real AG-UI client: what `@ag-ui/client` builds
//! from a stream of events, and what it accepts.

mod cases;
mod closing;
mod compare;
mod generate;
mod node;
mod package;
mod responses;
mod stored;
mod superseding;
mod ui_messages;
mod validating;

use threadline_testkit::rng;
