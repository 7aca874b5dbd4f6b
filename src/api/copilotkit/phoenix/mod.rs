//! Phoenix channels, V2 JSON serializer: topics joined over one socket, or over long-polling where there is none.

pub mod channel;
pub mod frame;
pub mod longpoll;
mod poll_session;
pub mod poll_sessions;
pub mod session;
pub mod socket;
#[cfg(test)]
mod tests;
