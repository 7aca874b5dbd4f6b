//! A private Redis with a replica, watched by three sentinels.

use std::{
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

use super::redis::Redis;

/// Longest wait for a state of the servers, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Name of the master in the configuration of the sentinels.
pub const NAME: &str = "main";

/// Two servers, of which one is the master, and three sentinels.
#[derive(Debug)]
pub struct Sentinels {
    servers: [Redis; 2],
    sentinels: Vec<Redis>,
}

impl Sentinels {
    /// Starts all of them. Sentinels replace a master that does not answer for `down_after`.
    pub fn start(down_after: Duration) -> Self {
        Self::launch(down_after, None)
    }

    /// Does the same with a password that servers and sentinels require.
    pub fn with_password(down_after: Duration, password: &str) -> Self {
        Self::launch(down_after, Some(password))
    }

    /// Returns the servers that the tests of this process share. No test stops one of them.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Sentinels> = OnceLock::new();
        SHARED.get_or_init(|| Self::start(PATIENCE))
    }

    fn launch(down_after: Duration, password: Option<&str>) -> Self {
        let mut options = vec![("repl-diskless-sync-delay", "0")];
        options.extend(password.into_iter().flat_map(|password| [("requirepass", password), ("masterauth", password)]));
        let servers = [Redis::start(&options), Redis::start(&options)];
        let [master, replica] = &servers;
        let port = master.port().to_string();
        let signed_in = |server: &Redis, words: &[&str]| match password {
            Some(password) => server.commands(&[&["AUTH", password], words]),
            None => server.commands(&[words]),
        };
        signed_in(replica, &["REPLICAOF", "127.0.0.1", &port]).expect("a replica");
        // A sentinel asks a master for its replicas when it starts, and then only every ten seconds.
        until("a connected replica", || {
            let state = signed_in(replica, &["INFO", "replication"]).unwrap_or_default();
            let known = signed_in(master, &["INFO", "replication"]).unwrap_or_default();
            state.contains("master_link_status:up") && known.contains("state=online")
        });
        let mut settings = vec![
            format!("sentinel monitor {NAME} 127.0.0.1 {port} 2"),
            format!("sentinel down-after-milliseconds {NAME} {}", down_after.as_millis()),
            // A failover that failed is tried again after twice this time.
            format!("sentinel failover-timeout {NAME} 3000"),
        ];
        settings
            .extend(password.map(|password| format!("sentinel auth-pass {NAME} {password}\nrequirepass {password}")));
        let sentinels: Vec<_> = (0..3).map(|_| Redis::sentinel(&settings)).collect();
        for sentinel in &sentinels {
            until("sentinels that know each other and the replica", || {
                let state = signed_in(sentinel, &["SENTINEL", "MASTER", NAME]).unwrap_or_default();
                state.contains("num-slaves\n1") && state.contains("num-other-sentinels\n2")
            });
        }
        Self { servers, sentinels }
    }

    /// `redis+sentinel://…`
    pub fn url(&self) -> String {
        self.url_as("")
    }

    /// The same with credentials: `:password@`.
    pub fn url_as(&self, credentials: &str) -> String {
        let places: Vec<_> = self.sentinels.iter().map(|sentinel| format!("127.0.0.1:{}", sentinel.port())).collect();
        format!("redis+sentinel://{credentials}{}/{NAME}", places.join(","))
    }

    /// The sentinels.
    pub fn sentinels(&self) -> &[Redis] {
        &self.sentinels
    }

    /// Port of the master, as the first sentinel that runs names it.
    pub fn named(&self) -> u16 {
        let sentinel = self.sentinels.iter().find(|sentinel| sentinel.is_running()).expect("a sentinel runs");
        let answer = sentinel.command(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME]);
        answer.lines().last().and_then(|port| port.parse().ok()).expect("a port")
    }

    /// The server that the sentinels name.
    pub fn master(&self) -> &Redis {
        let port = self.named();
        self.servers.iter().find(|server| server.port() == port).expect("one of the servers")
    }

    /// Has the sentinels make a master of the replica. Returns when they name it.
    pub fn fail_over(&self) {
        let before = self.named();
        // Refused while the sentinels are still busy with an earlier failover.
        until("a failover", || self.sentinels[0].try_command(&["SENTINEL", "FAILOVER", NAME]).is_ok());
        until("another master", || self.named() != before);
    }

    /// Starts the servers that do not run, and has all but the master follow the master.
    pub fn restore(&self) {
        let master = self.master();
        let port = master.port().to_string();
        let others = || self.servers.iter().filter(|server| server.port() != master.port());
        for server in others() {
            match server.is_running() {
                true => server.cont(),
                false => server.restart(),
            }
            until("a replica", || server.try_command(&["REPLICAOF", "127.0.0.1", &port]).is_ok());
        }
        until("a connected replica", || master.command(&["INFO", "replication"]).contains("state=online"));
        until("sentinels that know it", || {
            let known = self.sentinels[0].command(&["SENTINEL", "REPLICAS", NAME]);
            ["flags\nslave\n", "role-reported\nslave\n", "master-link-status\nok\n"]
                .iter()
                .all(|said| known.contains(said))
        });
    }
}

/// Waits for a state of the servers.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}
