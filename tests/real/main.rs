//! Real parts: a pydantic-ai agent under uvicorn, the real program, the real AG-UI client, and the examples.
//!
//! Needs Python and Node with their packages, which `make setup-test` installs. What is missing fails a test; nothing
//! is skipped.

mod chat;
mod conformance;
mod follow;
mod killed;
mod process;
mod pushed;
mod skillkit;
