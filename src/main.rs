//! The `threadline` program.

fn main() {}
