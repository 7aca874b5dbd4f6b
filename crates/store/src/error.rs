//! Answer of a store method.

pub use threadline_core::StoreError;

/// Value of a store method, or the reason why the store could not do its work.
pub type StoreResult<T> = Result<T, StoreError>;
