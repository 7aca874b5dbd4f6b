//! A private Redis Cluster.

use std::{sync::OnceLock, time::Duration};

use super::{ports::free_port, redis::Redis, sentinels::until};

/// Slots over which keys are spread.
const SLOTS: usize = 16_384;
const MASTERS: usize = 3;

/// Three masters with a replica each.
#[derive(Debug)]
pub struct RedisCluster {
    /// First the masters, as they began, then the replicas.
    servers: Vec<Redis>,
}

/// Options of a server of the cluster.
fn options<'a>(bus_port: &'a str, timeout: &'a str) -> [(&'static str, &'a str); 4] {
    [
        ("cluster-enabled", "yes"),
        ("cluster-port", bus_port),
        ("cluster-node-timeout", timeout),
        ("repl-diskless-sync-delay", "0"),
    ]
}

impl RedisCluster {
    /// Starts all of them. A replica takes the place of a master that does not answer for `down_after`.
    pub fn start(down_after: Duration) -> Self {
        let timeout = down_after.as_millis().to_string();
        Self::join((0..MASTERS * 2).map(|_| Redis::start(&options(&free_port().to_string(), &timeout))).collect())
    }

    /// Starts all of them with TLS for clients and among each other. The authority of the first server has signed the
    /// certificates of all.
    pub fn with_tls() -> Self {
        let timeout = "60000";
        let tls = [("tls-cluster", "yes"), ("tls-replication", "yes")];
        let first = Redis::with_tls(&[&options(&free_port().to_string(), timeout)[..], &tls].concat());
        let file = |name: &str| first.home().join(name).display().to_string();
        let (authority, certificate, key) = (file("ca.pem"), file("server.pem"), file("server.key"));
        let files = [("tls-ca-cert-file", &*authority), ("tls-cert-file", &certificate), ("tls-key-file", &key)];
        let mut servers = vec![first];
        while servers.len() < MASTERS * 2 {
            let port = free_port().to_string();
            servers.push(Redis::with_tls(&[&options(&port, timeout)[..], &tls, &files].concat()));
        }
        Self::join(servers)
    }

    /// Makes a cluster of servers, the masters first.
    fn join(servers: Vec<Redis>) -> Self {
        let bus_port =
            |server: &Redis| server.command(&["CONFIG", "GET", "cluster-port"]).replace("cluster-port\n", "");
        for (number, server) in servers.iter().enumerate() {
            server.command(&["CLUSTER", "SET-CONFIG-EPOCH", &(number + 1).to_string()]);
            if number < MASTERS {
                let [from, to] = [number, number + 1].map(|number| SLOTS * number / MASTERS);
                server.command(&["CLUSTER", "ADDSLOTSRANGE", &from.to_string(), &(to - 1).to_string()]);
            }
            let port = server.tls_port().unwrap_or(server.port()).to_string();
            let bus_port = bus_port(server);
            servers[0].command(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus_port]);
        }
        let all = |says: &str| servers.iter().all(|server| server.command(&["CLUSTER", "INFO"]).contains(says));
        until("servers that know each other", || all(&format!("cluster_known_nodes:{}", servers.len())));
        for (master, replica) in servers.iter().zip(&servers[MASTERS..]) {
            let id = master.command(&["CLUSTER", "MYID"]);
            until("a replica", || replica.try_command(&["CLUSTER", "REPLICATE", &id]).is_ok());
            until("a connected replica", || master.command(&["INFO", "replication"]).contains("state=online"));
        }
        until("a cluster that works", || all("cluster_state:ok"));
        Self { servers }
    }

    /// Returns the cluster that the tests of this process share. No test stops one of its servers.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<RedisCluster> = OnceLock::new();
        SHARED.get_or_init(|| Self::start(Duration::from_secs(60)))
    }

    /// `rediss+cluster://…` with one of the masters.
    pub fn tls_url(&self, master: usize) -> String {
        format!("rediss+cluster://localhost:{}", self.servers[master].tls_port().expect("with TLS"))
    }

    /// `redis+cluster://…`
    pub fn url(&self) -> String {
        let places: Vec<_> =
            self.servers[..MASTERS].iter().map(|server| format!("127.0.0.1:{}", server.port())).collect();
        format!("redis+cluster://{}", places.join(","))
    }

    /// All servers.
    pub fn servers(&self) -> &[Redis] {
        &self.servers
    }

    /// The server that has a key, or would have it; `None` while none accepts it.
    pub fn try_holder(&self, key: &str) -> Option<&Redis> {
        let holds = |server: &&Redis| {
            server.is_running()
                && server.try_command(&["ROLE"]).is_ok_and(|role| role.starts_with("master"))
                && server.try_command(&["GET", key]).is_ok()
        };
        self.servers.iter().find(holds)
    }

    /// The server that has a key. Waits until there is one.
    pub fn holder(&self, key: &str) -> &Redis {
        let mut found = None;
        until("a server that has the key", || {
            found = self.try_holder(key);
            found.is_some()
        });
        found.expect("found")
    }
}
