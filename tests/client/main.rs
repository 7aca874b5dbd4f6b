//! The client and the commands against small servers made for one test each, which do what a real server
//! does only on a bad day.

mod cli;
mod producer;
mod queue;
mod rest;
mod socket;
mod support;
mod tail;
