//! A streaming standby of a private Postgres.

use std::{
    ops::Deref,
    thread,
    time::{Duration, Instant},
};

use super::postgres::{Postgres, SmallDisk, binaries, empty_home, give_to_owner, quoted, unprivileged};

/// Longest wait until a standby has what the primary has, on a busy machine.
const CATCH_UP: Duration = Duration::from_secs(60);

/// A cluster made by `pg_basebackup`, which streams from its primary until it is promoted. Everything that a [`Postgres`]
/// offers is offered here as well; a restart keeps the role.
#[derive(Debug)]
pub struct Standby {
    cluster: Postgres,
}

impl Standby {
    /// Copies the primary, and starts a standby that streams from it.
    pub fn of(primary: &Postgres) -> Self {
        Self::through(primary, &format!("127.0.0.1:{}", primary.port()), &[])
    }

    /// Does the same with another address of the primary, such as that of a proxy, and with settings in addition to the
    /// default ones.
    pub fn through(primary: &Postgres, address: &str, options: &[(&str, &str)]) -> Self {
        Self::make(primary, address, None, options)
    }

    /// Does the same with a part of the data on a small file system, and with settings in addition to the default ones.
    pub fn on_small_disk(primary: &Postgres, disk: SmallDisk, options: &[(&str, &str)]) -> Self {
        Self::make(primary, &format!("127.0.0.1:{}", primary.port()), Some(disk), options)
    }

    fn make(primary: &Postgres, address: &str, disk: Option<SmallDisk>, options: &[(&str, &str)]) -> Self {
        let mut keeper = empty_home("standby", disk);
        let wal = if let Some(SmallDisk::Tables(_)) = disk { " --waldir=$home/wal" } else { "" };
        let backup = format!(
            "{}{}/pg_basebackup -d {} -D $home/data{wal} -X stream -c fast --no-sync",
            unprivileged(disk.is_some()),
            binaries().display(),
            quoted(&primary.url("postgres")),
        );
        keeper.run(&backup);
        keeper.run("touch $home/data/standby.signal");
        if let Some((host, port)) = address.rsplit_once(':') {
            let line = format!("primary_conninfo = 'host={host} port={port} user=postgres'");
            keeper.run(&format!("printf '%s\\n' {} >>$home/data/postgresql.auto.conf", quoted(&line)));
        }
        give_to_owner(&mut keeper);
        Self { cluster: Postgres::serve(keeper, options, disk, None) }
    }

    /// Waits until everything that `primary` has written so far is replayed.
    pub fn catch_up(&self, primary: &Postgres) {
        let end = primary.psql("postgres", "SELECT pg_current_wal_insert_lsn()");
        let replayed = format!("SELECT pg_last_wal_replay_lsn() >= '{end}'::pg_lsn");
        let deadline = Instant::now() + CATCH_UP;
        while self.psql("postgres", &replayed) != "t" {
            assert!(Instant::now() < deadline, "the standby does not catch up:\n{}", self.log());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Stops streaming: from now on the standby lags.
    pub fn disconnect(&self) {
        self.psql("postgres", "ALTER SYSTEM SET primary_conninfo = ''");
        self.psql("postgres", "SELECT pg_reload_conf()");
        let deadline = Instant::now() + CATCH_UP;
        while self.psql("postgres", "SELECT count(*) FROM pg_stat_wal_receiver") != "0" {
            assert!(Instant::now() < deadline, "the standby still streams:\n{}", self.log());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Makes a primary of it. Returns when it accepts writes.
    pub fn promote(&self) {
        let promoted = self.psql("postgres", "SELECT pg_promote(wait_seconds => 60)");
        assert_eq!(promoted, "t", "the standby was not promoted:\n{}", self.log());
    }

    /// The cluster, once it is promoted.
    pub fn into_primary(self) -> Postgres {
        self.cluster
    }
}

impl Deref for Standby {
    type Target = Postgres;

    fn deref(&self) -> &Postgres {
        &self.cluster
    }
}
