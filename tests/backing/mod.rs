//! Real processes that tests stand on. Included by `#[path = "../backing/mod.rs"] mod backing;`.

pub mod postgres;
