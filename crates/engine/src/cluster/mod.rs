//! Coordination of nodes: the lock in front of a run, wake-ups between nodes, and the connection to Redis, which both
//! may use.

pub mod bus;
pub mod lock;
mod redis_address;
mod redis_cluster;
pub mod redis_connection;
mod redis_error;
mod redis_sentinels;
pub mod redis_servers;
pub mod witness;
