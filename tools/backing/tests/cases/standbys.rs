//! A standby: it follows its primary, falls behind when it is disconnected, and continues as a primary.

use threadline_backing::{Postgres, Standby};

#[test]
fn a_standby_follows_falls_behind_and_takes_over() {
    let primary = Postgres::start(&[]);
    primary.psql("postgres", "CREATE TABLE kept (n int); INSERT INTO kept VALUES (1)");
    let standby = Standby::of(&primary);
    let count = |cluster: &Postgres| cluster.psql("postgres", "SELECT count(*) FROM kept");
    primary.psql("postgres", "INSERT INTO kept VALUES (2)");
    standby.catch_up(&primary);
    assert_eq!(count(&standby), "2");
    assert_eq!(standby.psql("postgres", "SELECT pg_is_in_recovery()"), "t");
    assert_eq!(primary.psql("postgres", "SELECT count(*) FROM pg_stat_replication"), "1");

    standby.disconnect();
    primary.psql("postgres", "INSERT INTO kept VALUES (3)");
    assert_eq!((count(&primary), count(&standby)), ("3".to_owned(), "2".to_owned()));

    primary.kill();
    standby.promote();
    standby.psql("postgres", "INSERT INTO kept VALUES (4)");
    let timeline = "SELECT substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)";
    assert_eq!(standby.psql("postgres", timeline), "00000002");
    standby.restart();
    assert_eq!((count(&standby), standby.psql("postgres", timeline)), ("3".to_owned(), "00000002".to_owned()));
}

#[test]
fn a_standby_stays_one_over_a_restart() {
    let primary = Postgres::start(&[]);
    let standby = Standby::of(&primary);
    standby.restart();
    assert_eq!(standby.psql("postgres", "SELECT pg_is_in_recovery()"), "t");
    primary.psql("postgres", "CREATE TABLE kept (n int)");
    standby.catch_up(&primary);
    assert_eq!(standby.psql("postgres", "SELECT count(*) FROM kept"), "0");
}
