//! Ports that stay free while their server is down.

use std::{
    collections::HashSet,
    net::{Ipv4Addr, TcpListener},
    sync::{Mutex, PoisonError},
};

/// Range of ports below the ephemeral ones (usually 32768 and up), so that no outgoing connection takes the port of a
/// server that was killed.
const RANGE: std::ops::Range<u16> = 12_000..32_000;

/// Returns a port of 127.0.0.1 without a listener, a new one for each call.
pub fn free_port() -> u16 {
    static GIVEN: Mutex<Option<HashSet<u16>>> = Mutex::new(None);
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    let given = given.get_or_insert_default();
    for _ in 0..1_000 {
        // A random choice, so that test processes that run in parallel rarely choose the same port.
        let chance = getrandom::u32().expect("randomness");
        let port = RANGE.start + (chance % u32::from(RANGE.end - RANGE.start)) as u16;
        if given.insert(port) && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
    panic!("no free port on 127.0.0.1");
}
