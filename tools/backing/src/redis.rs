//! A private Redis.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use nix::{sys::signal::Signal, unistd::Pid};

use super::{keeper::Keeper, ports::free_port, postgres::quoted};

const READY: &str = "Ready to accept connections";

/// A private server on 127.0.0.1, without persistence by default.
#[derive(Debug)]
pub struct Redis {
    keeper: Mutex<Keeper>,
    command: String,
    /// Line of the log after which it accepts connections.
    ready: &'static str,
    port: u16,
    tls_port: Option<u16>,
}

impl Redis {
    /// Starts a server, with options in addition to the default ones: `("appendonly", "yes")`.
    pub fn start(options: &[(&str, &str)]) -> Self {
        Self::launch(options, false)
    }

    /// Starts a server that also serves TLS, with a certificate for `localhost` that a private authority has signed.
    pub fn with_tls(options: &[(&str, &str)]) -> Self {
        Self::launch(options, true)
    }

    /// Returns the server that the tests of this process share.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Redis> = OnceLock::new();
        SHARED.get_or_init(|| Self::start(&[]))
    }

    /// Starts a sentinel, which writes what it learns to its file. `settings` are the lines of the file.
    pub fn sentinel(settings: &[String]) -> Self {
        installed();
        let keeper = Keeper::new("sentinel", &[], "");
        let file = keeper.home().join("sentinel.conf");
        Self::serve(keeper, "Sentinel ID is", |home, port| {
            let lines = ["bind 127.0.0.1".to_owned(), format!("port {port}"), format!("dir {home}")];
            let lines: Vec<_> = lines.iter().chain(settings).cloned().collect();
            fs::write(&file, lines.join("\n") + "\n").expect("written");
            (format!("redis-server {home}/sentinel.conf --sentinel"), None)
        })
    }

    fn launch(options: &[(&str, &str)], tls: bool) -> Self {
        installed();
        let keeper = Keeper::new("redis", &[], "");
        if tls {
            certify(keeper.home());
        }
        let options: String = options.iter().map(|(name, value)| format!(" --{name} {}", quoted(value))).collect();
        Self::serve(keeper, READY, |home, port| {
            let tls_port = tls.then(free_port);
            let secure = tls_port.map(|port| {
                format!(
                    " --tls-port {port} --tls-cert-file {home}/server.pem --tls-key-file {home}/server.key \
                     --tls-ca-cert-file {home}/ca.pem --tls-auth-clients no"
                )
            });
            let command = format!(
                "redis-server --bind 127.0.0.1 --port {port} --dir {home} --save '' --appendonly no{}{options}",
                secure.unwrap_or_default()
            );
            (command, tls_port)
        })
    }

    /// Starts the server of a command line, which is made of its home and its port. The second part is its port for TLS.
    fn serve(mut keeper: Keeper, ready: &'static str, command: impl Fn(&str, u16) -> (String, Option<u16>)) -> Self {
        let home = keeper.home().display().to_string();
        // Another process may take a port before the server does.
        for _ in 0..5 {
            let port = free_port();
            let (command, tls_port) = command(&home, port);
            match keeper.start(&command, ready) {
                Ok(()) => return Self { keeper: Mutex::new(keeper), command, ready, port, tls_port },
                Err(said) if said.contains("Address already in use") => {}
                Err(said) => panic!("Redis did not start:\n{said}"),
            }
        }
        panic!("no port for Redis");
    }

    fn keeper(&self) -> MutexGuard<'_, Keeper> {
        self.keeper.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `redis://…`
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// `rediss://…`, of a server with TLS.
    pub fn tls_url(&self) -> String {
        format!("rediss://localhost:{}/", self.tls_port.expect("started with TLS"))
    }

    /// Starts a sentinel of this server, which has TLS. Returns its URL as well: the sentinel, too, accepts and makes
    /// connections over TLS, with the certificate of the server.
    pub fn tls_sentinel(&self, name: &str) -> (Self, String) {
        let (home, port) = (self.home().display().to_string(), free_port());
        let settings = [
            format!("tls-port {port}"),
            format!("tls-cert-file {home}/server.pem"),
            format!("tls-key-file {home}/server.key"),
            format!("tls-ca-cert-file {home}/ca.pem"),
            "tls-auth-clients no".to_owned(),
            "tls-replication yes".to_owned(),
            format!("sentinel monitor {name} 127.0.0.1 {} 1", self.tls_port.expect("started with TLS")),
        ];
        (Self::sentinel(&settings), format!("rediss+sentinel://localhost:{port}/{name}"))
    }

    /// Certificate of the authority (PEM), of a server with TLS.
    pub fn authority(&self) -> PathBuf {
        self.keeper().home().join("ca.pem")
    }

    /// Process id of the server.
    pub fn pid(&self) -> Pid {
        self.keeper().pid()
    }

    /// True if the server runs.
    pub fn is_running(&self) -> bool {
        self.keeper().is_running()
    }

    /// Kills the server with SIGKILL.
    pub fn kill(&self) {
        self.keeper().kill();
    }

    /// Restarts the server on its port; without persistence, it is empty then.
    pub fn restart(&self) {
        let mut keeper = self.keeper();
        keeper.kill();
        keeper.start(&self.command, self.ready).unwrap_or_else(|said| panic!("Redis did not start again:\n{said}"));
    }

    /// Sends SIGSTOP.
    pub fn stop_signal(&self) {
        self.keeper().signal_all(Signal::SIGSTOP);
    }

    /// Sends SIGCONT.
    pub fn cont(&self) {
        self.keeper().signal_all(Signal::SIGCONT);
    }

    /// Sends a command. Returns the answer as text, with one line per item of a list, and nil as `(nil)`.
    pub fn command(&self, words: &[&str]) -> String {
        self.try_command(words).unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// Does the same as [`Redis::command`], for a server that may not answer.
    pub fn try_command(&self, words: &[&str]) -> std::io::Result<String> {
        self.commands(&[words])
    }

    /// Sends commands over one connection. Returns the last answer; all before must succeed.
    pub fn commands(&self, commands: &[&[&str]]) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        let mut answers = BufReader::new(stream.try_clone()?);
        let mut last = String::new();
        for words in commands {
            let mut request = format!("*{}\r\n", words.len());
            for word in *words {
                request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
            }
            stream.write_all(request.as_bytes())?;
            last = answer(&mut answers)?;
        }
        Ok(last)
    }

    /// Port for TLS, if the server has one.
    pub fn tls_port(&self) -> Option<u16> {
        self.tls_port
    }

    /// Directory of its files.
    pub fn home(&self) -> PathBuf {
        self.keeper().home().to_owned()
    }

    /// Returns the messages that are published within this time, as `(channel, message)`.
    pub fn overhear(&self, time: Duration) -> Vec<(String, String)> {
        let deadline = Instant::now() + time;
        let mut heard = Vec::new();
        let listen = || -> std::io::Result<BufReader<TcpStream>> {
            let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
            stream.write_all(b"*2\r\n$10\r\nPSUBSCRIBE\r\n$1\r\n*\r\n")?;
            Ok(BufReader::new(stream))
        };
        let Ok(mut stream) = listen() else { return heard };
        while let Some(left) = deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            stream.get_ref().set_read_timeout(Some(left)).expect("set");
            let Ok(message) = answer(&mut stream) else { break };
            if let ["pmessage", _, channel, text] = message.split('\n').collect::<Vec<_>>()[..] {
                heard.push((channel.to_owned(), text.to_owned()));
            }
        }
        heard
    }

    /// Returns its log.
    pub fn log(&self) -> String {
        self.keeper().said(0)
    }
}

/// Reads one answer of RESP2.
fn answer(from: &mut impl BufRead) -> std::io::Result<String> {
    let mut line = String::new();
    from.read_line(&mut line)?;
    let line = line.trim_end();
    let (kind, rest) = line.split_at_checked(1).unwrap_or_default();
    match (kind, rest.parse::<usize>()) {
        ("$", Ok(length)) => {
            let mut text = vec![0; length + 2];
            from.read_exact(&mut text)?;
            text.truncate(length);
            Ok(String::from_utf8_lossy(&text).into_owned())
        }
        ("*", Ok(count)) => {
            let items: std::io::Result<Vec<_>> = (0..count).map(|_| answer(from)).collect();
            Ok(items?.join("\n"))
        }
        ("$" | "*", _) => Ok("(nil)".to_owned()),
        ("+" | ":", _) => Ok(rest.to_owned()),
        ("-", _) => Err(std::io::Error::other(rest.to_owned())),
        _ => Err(std::io::Error::new(std::io::ErrorKind::UnexpectedEof, "no answer")),
    }
}

fn installed() {
    let found = Command::new("redis-server").arg("--version").output();
    assert!(found.is_ok(), "these tests need Redis: install the package redis-server (apt-get install redis-server)");
}

/// Creates an authority, and a certificate for `localhost` and 127.0.0.1 that the authority has signed.
fn certify(home: &Path) {
    let openssl = |words: &str| {
        let output = Command::new("openssl").args(words.split(' ')).current_dir(home).output();
        let output = output.expect("these tests need `openssl`: install the package openssl (apt-get install openssl)");
        assert!(output.status.success(), "openssl {words}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(&format!("req -x509 {key} -keyout ca.key -out ca.pem -days 2 -subj /CN=threadline-tests"));
    openssl(&format!("req {key} -keyout server.key -out server.csr -subj /CN=localhost"));
    let names = "subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=CA:FALSE\n";
    fs::write(home.join("names"), names).expect("written");
    openssl("x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out server.pem -days 2 -extfile names");
}
