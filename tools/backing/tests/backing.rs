//! The private processes and the breakable network that other tests stand on, tested themselves.

mod cases;
