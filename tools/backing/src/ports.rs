//! Ports that stay free while their server is down.

use std::{
    collections::HashSet,
    net::{Ipv4Addr, TcpListener},
    sync::{Mutex, PoisonError},
};

/// Below the ports that outgoing connections are given (32768 and up, usually): while a server that was killed is
/// away, no connection takes its port.
const RANGE: std::ops::Range<u16> = 12_000..32_000;

/// A port of 127.0.0.1 that nobody listens on, a new one each time.
pub fn free_port() -> u16 {
    static GIVEN: Mutex<Option<HashSet<u16>>> = Mutex::new(None);
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    let given = given.get_or_insert_default();
    for _ in 0..1_000 {
        // By chance, so that test processes side by side rarely choose the same.
        let chance = getrandom::u32().expect("randomness");
        let port = RANGE.start + (chance % u32::from(RANGE.end - RANGE.start)) as u16;
        if given.insert(port) && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
    panic!("no free port on 127.0.0.1");
}
