//! Agent data: what frameworks keep beside the logs.

mod checkpoints;
mod items;
mod kv;
