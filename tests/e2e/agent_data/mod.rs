//! Agent data: what frameworks keep beside the logs.

mod items;
mod kv;
