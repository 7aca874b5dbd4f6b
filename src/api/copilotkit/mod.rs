//! The doors of CopilotKit's clients: the published packages speak to them unchanged.
//!
//! `intelligence` is what the Node runtime takes for its platform (`apiUrl`, `wsUrl`, `apiKey`), `runtime` is what the
//! browser packages take for the Node runtime (`runtimeUrl`). `phoenix` is the transport of both for what is live.

pub mod phoenix;
pub mod runtime;
pub mod view;
