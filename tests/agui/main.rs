//! Projections of the server against the real clients of their protocols: what `@ag-ui/client` builds from a stream of events and what
//! it accepts, and what the AI SDK and OpenAI's packages build from the streams of their APIs.

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
