//! The use cases over a store in memory, on paused time and a clock that only the test moves.

mod access;
mod ending;
mod lists;
mod streams;
mod whole;
