//! CopilotKit's published packages, unmodified, against the real program: the runtime in a Node process, its core
//! without a browser, and its React components in Chromium.
//!
//! The cases are in `cases/*.test.mjs`, for node:test; each of them that fails is named here with what it said. Packages
//! and browser are installed by `make setup-test`; the older releases, which only `make test-full` runs, by
//! `scripts/setup.sh copilotkit`. What is missing fails a test; nothing is skipped.

mod suite;

use suite::Suite;

#[test]
fn a_runtime_that_long_polls() {
    Suite::of("newest").runner("longpoll").passes(&["chat", "list", "network", "lock"], 30);
}

#[test]
fn a_runtime_with_a_web_socket() {
    Suite::of("newest").runner("websocket").passes(&["chat", "network", "lock"], 20);
}

#[test]
fn no_runtime() {
    Suite::of("newest").via("direct").passes(&["chat", "list", "direct", "without-runtime"], 33);
}

#[test]
fn no_runtime_and_one_address_for_everything() {
    Suite::of("newest").via("direct").transport("single").passes(&["chat", "list"], 23);
}

#[test]
fn a_page_through_its_runtime() {
    Suite::of("newest").via("runtime").browser().passes(&["react"], 5);
}

#[test]
fn a_page_without_a_runtime() {
    Suite::of("newest").via("direct").browser().passes(&["react"], 5);
}

#[test]
fn the_example_without_a_runtime() {
    Suite::of("newest").via("direct").browser().passes(&["example"], 1);
}

#[test]
#[ignore = "its runtime is installed once more: make test-full"]
fn the_example_with_its_runtime() {
    Suite::of("newest").via("runtime").browser().passes(&["example"], 1);
}

#[test]
#[ignore = "an older release: make test-full"]
fn release_1_69() {
    Suite::of("1.69").runner("longpoll").passes(&["chat", "list", "network", "lock"], 30);
    Suite::of("1.69").via("direct").passes(&["chat", "list", "direct", "without-runtime"], 33);
}

/// Only with a WebSocket: long-polling, its runner never sends the end of a run.
#[test]
#[ignore = "an older release: make test-full"]
fn release_1_57() {
    Suite::of("1.57").runner("websocket").passes(&["chat", "list", "network", "lock"], 27);
    Suite::of("1.57").via("direct").passes(&["chat", "list", "direct", "without-runtime"], 31);
}
