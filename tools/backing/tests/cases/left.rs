//! No processes, files or shared memory are left after a test process has ended, by any cause.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::unistd::Pid;

use threadline_backing::{Postgres, Redis, keeper::is_running, postgres::SmallDisk};

const CHILD: &str = "THREADLINE_TEST_CHILD";

/// Returns all processes with this working directory.
fn at_work(home: &Path) -> Vec<i32> {
    let all = fs::read_dir("/proc").expect("Linux").flatten();
    let all = all.filter_map(|entry| entry.file_name().into_string().ok()?.parse::<i32>().ok());
    all.filter(|pid| fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(home))).collect()
}

/// Returns the segments of shared memory, which outlive a killed Postgres.
fn segments() -> Vec<String> {
    let text = fs::read_to_string("/proc/sysvipc/shm").expect("Linux");
    text.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1).map(str::to_owned)).collect()
}

fn segment_of(home: &Path) -> String {
    let lock = fs::read_to_string(home.join("data/postmaster.pid")).expect("a lock file");
    lock.lines().nth(6).and_then(|line| line.split_whitespace().nth(1)).expect("a segment").to_owned()
}

/// Child process of the next test: starts all servers, prints their homes, and waits to be killed.
#[test]
#[ignore = "is run by the next test in a process of its own"]
fn holds_on() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let postgres = Postgres::start(&[]);
    let small = Postgres::on_small_disk(SmallDisk::Tables(96), &[]);
    let redis = Redis::start(&[]);
    // Stopped processes must end as well.
    small.stop_signal();
    for (pid, log) in [(postgres.pid(), postgres.home()), (small.pid(), small.home()), (redis.pid(), redis.home())] {
        println!("\nholds {pid} {}", log.display());
    }
    println!("\nholds all");
    std::io::stdout().flush().expect("written");
    thread::sleep(Duration::from_secs(60));
}

#[test]
fn nothing_is_left_of_a_test_that_is_killed() {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--ignored", "--exact", "cases::left::holds_on", "--nocapture"]).env(CHILD, "1");
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("a child");
    let mut held: Vec<(Pid, PathBuf)> = Vec::new();
    for line in BufReader::new(child.stdout.take().expect("piped")).lines().map_while(Result::ok) {
        let Some(what) = line.strip_prefix("holds ") else { continue };
        let Some((pid, home)) = what.split_once(' ') else { break };
        held.push((Pid::from_raw(pid.parse().expect("a pid")), home.into()));
    }
    assert_eq!(held.len(), 3, "everything was started");
    let segment = segment_of(&held[0].1);
    assert!(segments().contains(&segment));
    assert!(held.iter().all(|(pid, home)| is_running(*pid) && at_work(home).contains(&pid.as_raw())));
    child.kill().expect("killed");
    child.wait().expect("gone");
    let deadline = Instant::now() + Duration::from_secs(10);
    let left = || {
        let of = |(pid, home): &(Pid, PathBuf)| is_running(*pid) || home.exists() || !at_work(home).is_empty();
        held.iter().filter(|one| of(one)).cloned().collect::<Vec<_>>()
    };
    while !left().is_empty() {
        assert!(Instant::now() < deadline, "left of a killed test: {:?}", left());
        thread::sleep(Duration::from_millis(20));
    }
    assert!(!segments().contains(&segment), "shared memory is left");
}

#[test]
fn nothing_is_left_when_they_are_dropped() {
    let (postgres, redis) = (Postgres::start(&[]), Redis::start(&[]));
    let homes = [postgres.home(), redis.home()];
    let segment = segment_of(&homes[0]);
    postgres.psql("postgres", "SELECT 1");
    drop((postgres, redis));
    for home in homes {
        assert!(!home.exists() && at_work(&home).is_empty(), "{home:?} is left");
    }
    assert!(!segments().contains(&segment), "shared memory is left");
}
