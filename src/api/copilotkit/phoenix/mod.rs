//! Phoenix channels, V2 JSON serializer: topics joined over one socket, or over long-polling where there is none.

pub mod channel;
