//! Connections of a listener: their number, their addresses, and which of them are unknown.
//!
//! A flood of connections must not keep others out, and an address alone shows no intent. So a full listener cuts the
//! unknown connection that has waited longest for the head of a request, and accepts the new one.

use std::{
    collections::{BTreeMap, HashMap},
    net::{IpAddr, Ipv6Addr},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use threadline_core::limits::LOOPBACK_CONNECTIONS;
use tokio_util::sync::CancellationToken;

/// Origin of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// A client on this machine, or on a simulated one.
    Loopback,
    /// A proxy that the operator trusts to bound its own clients.
    Proxy,
    /// A client on another machine, with its address.
    Address(IpAddr),
}

/// Refusal of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionRefused {
    /// The listener has as many connections as it may have.
    All,
    /// The address of the client has as many as it may have.
    Address,
}

/// Connections of a listener. Cheap to clone; the clones share the counts.
#[derive(Debug, Clone)]
pub struct Connections(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    most: usize,
    per_address: usize,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    newest: u64,
    /// Open connections, by number, each with the address that it counts for.
    open: HashMap<u64, Option<IpAddr>>,
    addresses: HashMap<IpAddr, usize>,
    /// Unknown connections, each with its place in `waiting` while it waits for the head of a request.
    unknown: HashMap<u64, Option<u64>>,
    /// Unknown connections that wait, the one first that has waited longest.
    waiting: BTreeMap<u64, (u64, CancellationToken)>,
}

/// Place of an open connection; given back when dropped.
#[derive(Debug)]
pub struct ConnectionPlace(ConnectionMark);

/// Open connection, to note what happens on it.
#[derive(Debug, Clone)]
pub struct ConnectionMark(Arc<Marked>);

#[derive(Debug)]
struct Marked {
    connections: Connections,
    number: u64,
    known: AtomicBool,
    cut: CancellationToken,
}

/// Address that counts for a client: for IPv6 the network of 64 bits, since every client has such a network.
fn counted(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        address => address,
    }
}

impl Connections {
    /// Up to `most` connections, of which an address has up to `per_address`; 0 is no limit of an address.
    pub fn new(most: usize, per_address: usize) -> Self {
        let per_address = if per_address == 0 { usize::MAX } else { per_address };
        Self(Arc::new(Shared { most, per_address, table: Mutex::default() }))
    }

    /// Takes a connection, or refuses it. Clients on other machines leave some places to this one. If no place is left,
    /// the unknown connection that has waited longest is cut.
    pub fn enter(&self, peer: Peer) -> Result<ConnectionPlace, ConnectionRefused> {
        let Shared { most, per_address, .. } = *self.0;
        let address = match peer {
            Peer::Address(address) => Some(counted(address)),
            Peer::Loopback | Peer::Proxy => None,
        };
        let kept = if peer == Peer::Loopback { 0 } else { LOOPBACK_CONNECTIONS.min(most / 4) };
        let mut table = self.table();
        if address.is_some_and(|address| table.addresses.get(&address).is_some_and(|open| *open >= per_address)) {
            return Err(ConnectionRefused::Address);
        }
        let is_full = table.open.len() >= most - kept || (address.is_some() && table.unknown.len() >= most.div_ceil(2));
        if is_full && !table.cut_one() {
            return Err(ConnectionRefused::All);
        }
        table.newest += 1;
        let number = table.newest;
        let cut = CancellationToken::new();
        table.open.insert(number, address);
        if let Some(address) = address {
            *table.addresses.entry(address).or_default() += 1;
            table.unknown.insert(number, None);
            table.waits(number, &cut);
        }
        drop(table);
        let known = AtomicBool::new(address.is_none());
        Ok(ConnectionPlace(ConnectionMark(Arc::new(Marked { connections: self.clone(), number, known, cut }))))
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Cuts the unknown connection that has waited longest. False if none waits.
    fn cut_one(&mut self) -> bool {
        let Some((_, (number, cut))) = self.waiting.pop_first() else { return false };
        cut.cancel();
        self.leave(number);
        true
    }

    fn waits(&mut self, number: u64, cut: &CancellationToken) {
        self.newest += 1;
        let newest = self.newest;
        if let Some(place) = self.unknown.get_mut(&number).filter(|place| place.is_none()) {
            *place = Some(newest);
            self.waiting.insert(newest, (number, cut.clone()));
        }
    }

    fn is_served(&mut self, number: u64) {
        if let Some(place) = self.unknown.get_mut(&number).and_then(Option::take) {
            self.waiting.remove(&place);
        }
    }

    fn leave(&mut self, number: u64) {
        self.is_served(number);
        self.unknown.remove(&number);
        let Some(Some(address)) = self.open.remove(&number) else { return };
        let Some(open) = self.addresses.get_mut(&address) else { return };
        *open -= 1;
        if *open == 0 {
            self.addresses.remove(&address);
        }
    }
}

impl ConnectionPlace {
    /// Handle that notes what happens on the connection.
    pub fn mark(&self) -> ConnectionMark {
        self.0.clone()
    }

    /// True if the connection was cut: its peer gets no response.
    pub fn is_cut(&self) -> bool {
        self.0.0.cut.is_cancelled()
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        let marked = &self.0.0;
        marked.connections.table().leave(marked.number);
    }
}

impl ConnectionMark {
    /// Notes that the head of a request has arrived.
    pub fn is_served(&self) {
        self.change(|table, marked| table.is_served(marked.number));
    }

    /// Notes that the connection waits for the head of its next request.
    pub fn waits(&self) {
        self.change(|table, marked| table.waits(marked.number, &marked.cut));
    }

    /// Notes that a request on the connection was authenticated: from now on the connection is not cut.
    pub fn is_known(&self) {
        self.change(|table, marked| {
            table.is_served(marked.number);
            table.unknown.remove(&marked.number);
            marked.known.store(true, Relaxed);
        });
    }

    /// Waits until the connection is cut.
    pub async fn cut(&self) {
        self.0.cut.cancelled().await;
    }

    /// Known connections change nothing, and take no lock.
    fn change(&self, change: impl FnOnce(&mut Table, &Marked)) {
        let marked = &*self.0;
        if !marked.known.load(Relaxed) {
            change(&mut marked.connections.table(), marked);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(text: &str) -> Peer {
        Peer::Address(text.parse().expect("an address"))
    }

    fn is_empty(connections: &Connections) -> bool {
        let table = connections.table();
        table.open.is_empty() && table.addresses.is_empty() && table.unknown.is_empty() && table.waiting.is_empty()
    }

    #[test]
    fn an_address_has_its_share_and_a_network_of_ipv6_is_one() {
        let connections = Connections::new(1_000, 2);
        let mut open: Vec<_> = ["192.0.2.1", "::ffff:192.0.2.1", "2001:db8::1", "2001:db8::ffff:2"]
            .map(|address| connections.enter(from(address)).expect("a place"))
            .into();
        for full in ["192.0.2.1", "2001:db8::3"] {
            assert_eq!(connections.enter(from(full)).err(), Some(ConnectionRefused::Address), "{full}");
        }
        for other in [from("192.0.2.2"), from("2001:db8:0:1::1"), Peer::Loopback, Peer::Loopback, Peer::Loopback] {
            open.push(connections.enter(other).expect("a place"));
        }
        open.remove(0);
        open.push(connections.enter(from("192.0.2.1")).expect("the place that was given back"));
        drop(open);
        assert!(is_empty(&connections));
    }

    #[test]
    fn a_flood_of_unknown_connections_cuts_itself() {
        let connections = Connections::new(100, 0);
        let client = connections.enter(from("198.51.100.1")).expect("a place");
        client.mark().is_served();
        client.mark().is_known();
        client.mark().waits();
        let slow = connections.enter(from("198.51.100.2")).expect("a place");
        slow.mark().is_served();
        let mut flood: Vec<_> =
            (0..200).map(|n| connections.enter(from(&format!("192.0.2.{n}"))).expect("a place")).collect();
        let cut = flood.iter().take_while(|place| place.is_cut()).count();
        assert_eq!((cut, flood.iter().filter(|place| place.is_cut()).count()), (151, 151), "the oldest are cut");
        assert!(!client.is_cut() && !slow.is_cut());
        // A request without a credential is answered, and then its connection waits again, behind the others.
        slow.mark().waits();
        let newest = connections.enter(from("198.51.100.3")).expect("a place");
        assert!(!slow.is_cut() && flood[151].is_cut());
        // Places of connections that were cut are given back once.
        flood.drain(..152);
        assert_eq!(connections.table().unknown.len(), 50);
        drop((client, slow, newest, flood));
        assert!(is_empty(&connections));
    }

    #[test]
    fn known_connections_are_never_cut_and_leave_some_places_to_this_machine() {
        let connections = Connections::new(40, 0);
        let known: Vec<_> = (0..30)
            .map(|n| {
                let place = connections.enter(from(&format!("192.0.2.{n}"))).expect("a place");
                place.mark().is_known();
                place
            })
            .collect();
        for other in [from("198.51.100.1"), Peer::Proxy] {
            assert_eq!(connections.enter(other).err(), Some(ConnectionRefused::All));
        }
        let probes: Vec<_> = (0..10).map(|_| connections.enter(Peer::Loopback).expect("a place")).collect();
        assert_eq!(connections.enter(Peer::Loopback).err(), Some(ConnectionRefused::All));
        assert!(known.iter().chain(&probes).all(|place| !place.is_cut()));
        drop((known, probes));
        assert!(is_empty(&connections));
    }
}
