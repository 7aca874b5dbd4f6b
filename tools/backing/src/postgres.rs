//! A private Postgres.

use std::{
    env, fs,
    os::unix::fs::chown,
    path::{Path, PathBuf},
    process::{self, Command},
    sync::{
        Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use nix::{
    sys::signal::Signal,
    unistd::{Pid, User, geteuid, getgid, getuid},
};
use tokio::sync::OnceCell;

use super::{keeper::Keeper, ports::free_port, wall_clock::WallClock};

const MISSING: &str = "these tests need PostgreSQL: install the package postgresql (apt-get install postgresql)";
/// Beginning of the line that a primary ("connections") or a standby ("read-only connections") writes.
const READY: &str = "database system is ready to accept";

/// Data that is placed on a small file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SmallDisk {
    /// The tables, with this size in MiB; the write-ahead log is elsewhere. A full disk makes statements fail.
    Tables(usize),
    /// All data, with this size in MiB. A full disk also ends the server, which starts only after space is freed.
    Everything(usize),
}

impl SmallDisk {
    fn mib(self) -> usize {
        match self {
            Self::Tables(mib) | Self::Everything(mib) => mib,
        }
    }
}

/// A private cluster on 127.0.0.1, with fsync on unless it is [shared](Postgres::shared). Tests that run as root start it as an
/// unprivileged user.
#[derive(Debug)]
pub struct Postgres {
    keeper: Mutex<Keeper>,
    command: String,
    port: u16,
    disk_mib: Option<usize>,
    databases: AtomicUsize,
    /// Name of the database that [`Postgres::migrated_database`] copies.
    migrated: OnceCell<String>,
}

impl Postgres {
    /// Starts a cluster, with settings in addition to the default ones.
    pub fn start(options: &[(&str, &str)]) -> Self {
        Self::launch(options, None)
    }

    /// Starts a cluster with a part of its data on a small file system (a tmpfs), which can be filled.
    pub fn on_small_disk(disk: SmallDisk, options: &[(&str, &str)]) -> Self {
        Self::launch(options, Some(disk))
    }

    /// Starts a cluster with a system identifier of its own; all others of a machine have the same one.
    pub fn start_apart(options: &[(&str, &str)]) -> Self {
        let binaries = binaries();
        Self::serve(initialized(&binaries), options, None, None)
    }

    /// Returns the cluster that all tests of this process share, each with a database of its own.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Postgres> = OnceLock::new();
        // Tests read nothing that a crash of the machine leaves, so commits do not wait for the disk.
        SHARED.get_or_init(|| Self::start(&[("fsync", "off")]))
    }

    /// Starts a cluster that runs by a wall clock of its own.
    pub fn start_by(clock: &WallClock) -> Self {
        Self::serve(prepare(&template(&binaries()), None), &[], None, Some(clock))
    }

    fn launch(options: &[(&str, &str)], disk: Option<SmallDisk>) -> Self {
        let keeper = prepare(&template(&binaries()), disk);
        Self::serve(keeper, options, disk, None)
    }

    /// Starts the server on the data in the home of `keeper`.
    pub(super) fn serve(
        mut keeper: Keeper,
        options: &[(&str, &str)],
        disk: Option<SmallDisk>,
        clock: Option<&WallClock>,
    ) -> Self {
        let binaries = binaries();
        let settings: String = options.iter().map(|(name, value)| format!(" -c {name}={}", quoted(value))).collect();
        let by = clock.map(|clock| {
            let variables = clock.variables();
            let variables: String =
                variables.iter().map(|(name, value)| format!(" {name}={}", quoted(value))).collect();
            format!("env{variables} ")
        });
        let by = by.unwrap_or_default();
        // Another process may take the port before the server does.
        for _ in 0..5 {
            let port = free_port();
            let home = keeper.home().display();
            // Shared memory is a file in the home instead of /dev/shm, where a killed server would leave it behind.
            let command = format!(
                "{}{by}{binaries}/postgres -D {home}/data -p {port} -c listen_addresses=127.0.0.1 -c max_connections=200 \
                 -c unix_socket_directories={home} -c dynamic_shared_memory_type=mmap{settings}",
                unprivileged(disk.is_some()),
                binaries = binaries.display(),
            );
            match keeper.start(&command, READY) {
                Ok(()) => {
                    let (keeper, databases) = (Mutex::new(keeper), AtomicUsize::new(0));
                    let (disk_mib, migrated) = (disk.map(SmallDisk::mib), OnceCell::new());
                    return Self { keeper, command, port, disk_mib, databases, migrated };
                }
                Err(said) if said.contains("could not bind") => {}
                Err(said) => panic!("Postgres did not start:\n{said}"),
            }
        }
        panic!("no port for Postgres");
    }

    fn keeper(&self) -> MutexGuard<'_, Keeper> {
        self.keeper.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// URL of a database; `postgres` always exists.
    pub fn url(&self, database: &str) -> String {
        self.url_by(&format!("127.0.0.1:{}", self.port), database)
    }

    /// URL of a database at another address, such as that of a proxy or a pooler.
    pub fn url_by(&self, address: &str, database: &str) -> String {
        format!("postgres://postgres@{address}/{database}")
    }

    /// Creates an empty database, and returns its URL.
    pub fn fresh_database(&self) -> String {
        let name = format!("fresh_{}_{}", process::id(), self.databases.fetch_add(1, Ordering::Relaxed));
        self.psql("postgres", &format!("CREATE DATABASE {name}"));
        self.url(&name)
    }

    /// Creates a database with the schema that `migrate` makes in an empty one, and returns its URL. `migrate` runs once: each of these
    /// databases is a copy, which takes a fraction of the work of all steps.
    pub async fn migrated_database(&self, migrate: impl AsyncFnOnce(&str)) -> String {
        let template = self.migrated.get_or_init(|| async {
            let url = self.fresh_database();
            migrate(&url).await;
            url.rsplit('/').next().expect("a name").to_owned()
        });
        let template = template.await;
        let name = format!("copied_{}_{}", process::id(), self.databases.fetch_add(1, Ordering::Relaxed));
        self.psql("postgres", &format!("CREATE DATABASE {name} TEMPLATE {template}"));
        // Nodes of one installation hear each other.
        self.psql(&name, "UPDATE installation SET id = gen_random_uuid()::text");
        self.url(&name)
    }

    /// Executes SQL in a database. Returns the rows as lines, with columns separated by `|`.
    pub fn psql(&self, database: &str, sql: &str) -> String {
        let mut command = Command::new(binaries().join("psql"));
        command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", &self.url(database), "-c", sql]);
        let output = command.output().expect("psql runs");
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8").trim_end().to_owned()
    }

    /// Dumps a whole database as SQL.
    pub fn dump(&self, url: &str) -> Vec<u8> {
        let mut command = Command::new(binaries().join("pg_dump"));
        let output = command.args(["--no-owner", "--no-privileges", "-d", url]).output().expect("pg_dump runs");
        assert!(output.status.success(), "pg_dump: {}", String::from_utf8_lossy(&output.stderr));
        // Older clients do not know these lines.
        let lines = output.stdout.split_inclusive(|byte| *byte == b'\n');
        lines
            .filter(|line| !line.starts_with(b"\\restrict") && !line.starts_with(b"\\unrestrict"))
            .flatten()
            .copied()
            .collect()
    }

    /// Loads the output of [`Postgres::dump`] into an empty database.
    pub fn load(&self, url: &str, dump: &[u8]) {
        let file = self.home().join(format!("dump-{}", self.databases.fetch_add(1, Ordering::Relaxed)));
        fs::write(&file, dump).expect("written");
        let mut command = Command::new(binaries().join("psql"));
        command.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", url, "-f"]).arg(&file);
        let output = command.output().expect("psql runs");
        assert!(output.status.success(), "the dump: {}", String::from_utf8_lossy(&output.stderr));
        fs::remove_file(file).expect("removed");
    }

    /// Process id of the postmaster.
    pub fn pid(&self) -> Pid {
        self.keeper().pid()
    }

    /// True if the postmaster runs; on a full disk it ends by itself.
    pub fn is_running(&self) -> bool {
        self.keeper().is_running()
    }

    /// Kills the postmaster with SIGKILL, if it runs, and waits until the postmaster and its backends have ended.
    pub fn kill(&self) {
        self.keeper().kill();
    }

    /// Kills the cluster, and starts it again with the same data and port. Returns when it is ready.
    pub fn restart(&self) {
        let mut keeper = self.keeper();
        keeper.kill();
        let deadline = Instant::now() + Duration::from_secs(30);
        while let Err(said) = keeper.start(&self.command, READY) {
            let stale = ["postmaster.pid", "pre-existing shared memory", "could not bind"];
            let passing = stale.iter().any(|sign| said.contains(sign));
            assert!(passing && Instant::now() < deadline, "Postgres did not start again:\n{said}");
        }
    }

    /// Copies all data, after a kill; the cluster continues with it. [`Postgres::put_back`] returns to this state.
    pub fn keep(&self) {
        self.keeper().kill();
        self.keeper().run("rm -rf $home/kept && cp -a $home/data $home/kept");
        self.restart();
    }

    /// Replaces all data by the copy that [`Postgres::keep`] made, as the restore of a volume does: nothing in the data
    /// tells of it.
    pub fn put_back(&self) {
        self.keeper().kill();
        self.keeper().run("rm -rf $home/data && cp -a $home/kept $home/data");
        self.restart();
    }

    /// Restarts the cluster as a standby without a primary: it serves reads, and refuses writes until it is promoted.
    pub fn restart_as_standby(&self) {
        let mut keeper = self.keeper();
        keeper.kill();
        let signal = keeper.home().join("data/standby.signal");
        fs::write(&signal, "").expect("written");
        let owner = owner();
        chown(&signal, Some(owner.uid.as_raw()), Some(owner.gid.as_raw())).expect("Postgres' own file");
        keeper.start(&self.command, READY).unwrap_or_else(|said| panic!("Postgres is not a standby:\n{said}"));
    }

    /// Sends SIGSTOP to all its processes.
    pub fn stop_signal(&self) {
        self.keeper().signal_all(Signal::SIGSTOP);
    }

    /// Sends SIGCONT to all its processes.
    pub fn cont(&self) {
        self.keeper().signal_all(Signal::SIGCONT);
    }

    /// Fills the small disk by shrinking it to the used size, which is instantaneous.
    pub fn fill_disk(&self) {
        // The used size may grow between the two commands, so both are repeated.
        let used = "$(df -k --output=used $home/data | tail -n 1 | tr -d ' ')";
        let full = format!("mount -o remount,size={used}k $home/data");
        self.keeper().run(&format!("for turn in $(seq 500); do {full} && exit 0; sleep 0.01; done; exit 1"));
    }

    /// Restores the size of the small disk.
    pub fn free_disk(&self) {
        let mib = self.disk_mib.expect("a small disk");
        self.keeper().run(&format!("mount -o remount,size={mib}m $home/data"));
    }

    /// Directory of its files.
    pub fn home(&self) -> PathBuf {
        self.keeper().home().to_owned()
    }

    /// Returns its log.
    pub fn log(&self) -> String {
        self.keeper().said(0)
    }
}

/// Creates a home with a copy of the template.
fn prepare(template: &Path, disk: Option<SmallDisk>) -> Keeper {
    let mut keeper = empty_home("postgres", disk);
    keeper.run(&format!("tar -x -C $home/data -f {} --no-same-owner", quoted(&template.to_string_lossy())));
    if let Some(SmallDisk::Tables(_)) = disk {
        keeper.run("mv $home/data/pg_wal $home/wal && ln -s $home/wal $home/data/pg_wal");
    }
    give_to_owner(&mut keeper);
    keeper
}

/// Creates a home with an empty directory `data`, which is a file system of its own if it has to be small.
pub(super) fn empty_home(name: &str, disk: Option<SmallDisk>) -> Keeper {
    let namespace = if geteuid().is_root() { "-m" } else { "-Urm" };
    let mut keeper = match disk {
        None => Keeper::new(name, &[], ""),
        Some(_) => Keeper::new(name, &["unshare", namespace], "umount $home/data"),
    };
    let owner = owner();
    chown(keeper.home(), Some(owner.uid.as_raw()), Some(owner.gid.as_raw())).expect("a home of its own");
    keeper.run("mkdir $home/data");
    if let Some(mib) = disk.map(SmallDisk::mib) {
        keeper.run(&format!("mount -t tmpfs -o size={mib}m threadline $home/data"));
    }
    give_to_owner(&mut keeper);
    keeper
}

/// Gives the files of a home to the user that runs Postgres.
pub(super) fn give_to_owner(keeper: &mut Keeper) {
    if geteuid().is_root() {
        let owner = owner();
        keeper.run(&format!("chown -R {}:{} $home", owner.uid, owner.gid));
    }
    keeper.run("chmod 700 $home/data");
}

/// User that runs Postgres, which refuses to run as root.
pub(super) fn owner() -> User {
    if !geteuid().is_root() {
        return User::from_uid(getuid()).expect("users can be looked up").expect("this user");
    }
    let known = |name| User::from_name(name).expect("users can be looked up");
    known("postgres").or_else(|| known("nobody")).expect("as root these tests need a user postgres or nobody")
}

/// Prefix of a command line that runs it as [`owner`].
pub(super) fn unprivileged(in_namespace: bool) -> String {
    let owner = owner();
    if geteuid().is_root() {
        return format!("setpriv --reuid={} --regid={} --clear-groups ", owner.uid, owner.gid);
    }
    // In a namespace of its own, the process appears to be root.
    if in_namespace { format!("unshare -U --map-user={} --map-group={} ", getuid(), getgid()) } else { String::new() }
}

/// Directory of initdb, postgres and psql, of the newest installed version.
pub fn binaries() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let versions = versions.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let found = versions.max().map(|version| PathBuf::from(format!("/usr/lib/postgresql/{version}/bin")));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places: Vec<_> = found.into_iter().chain(std::env::split_paths(&path)).collect();
    let has_all = |place: &&PathBuf| ["initdb", "postgres", "psql"].iter().all(|name| place.join(name).exists());
    places.iter().find(has_all).expect(MISSING).clone()
}

/// Cargo's directory for files of tests, `target/tmp`. Cargo passes its path to test programs only, not to a library.
fn target_tmp() -> PathBuf {
    let test = env::current_exe().expect("the path of the test program");
    let tmp = test.ancestors().nth(3).expect("target/debug/deps/test").join("tmp");
    fs::create_dir_all(&tmp).expect("a directory");
    tmp
}

/// Archive of an empty cluster, created once for all test runs: unpacking is faster than initdb.
fn template(binaries: &Path) -> PathBuf {
    static TEMPLATE: Mutex<()> = Mutex::new(());
    let _one = TEMPLATE.lock().unwrap_or_else(PoisonError::into_inner);
    let version = Command::new(binaries.join("postgres")).arg("--version").output().expect(MISSING).stdout;
    let version = String::from_utf8_lossy(&version);
    let version = version.split_whitespace().nth(2).expect("postgres (PostgreSQL) 15.4 …");
    let packed = target_tmp().join(format!("postgres-{version}.tar"));
    if packed.exists() {
        return packed;
    }
    let mut keeper = initialized(binaries);
    // Other processes may create the same archive now; each archive is complete when it is renamed.
    let own = packed.with_extension(format!("{}.tar", process::id()));
    keeper.run(&format!("tar -c -C $home/data -f {} .", quoted(&own.to_string_lossy())));
    fs::rename(own, &packed).expect("renamed");
    packed
}

/// Creates a home with an empty cluster, made by initdb.
fn initialized(binaries: &Path) -> Keeper {
    let owner = owner();
    let mut keeper = Keeper::new("initdb", &[], "");
    chown(keeper.home(), Some(owner.uid.as_raw()), Some(owner.gid.as_raw())).expect("a home of its own");
    let (unprivileged, binaries) = (unprivileged(false), binaries.display());
    keeper.run(&format!("{unprivileged}{binaries}/initdb -D $home/data -U postgres -A trust -E UTF8 --locale=C -N"));
    keeper
}

/// Quotes a text as one word of the shell.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
