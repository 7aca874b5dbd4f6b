//! The configuration of the real program: variables, file and flags.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output},
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_threadline");

/// Runs the program with these variables and no others of ours.
fn threadline(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(PROGRAM);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("THREADLINE_") {
            command.env_remove(name);
        }
    }
    command.args(arguments).envs(variables.iter().copied()).output().expect("the program runs")
}

fn said(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
    (text(&output.stdout), text(&output.stderr))
}

fn good(arguments: &[&str], variables: &[(&str, &str)]) -> String {
    let output = threadline(arguments, variables);
    let (out, error) = said(&output);
    assert!(output.status.success() && error.is_empty(), "{error}");
    out
}

#[test]
fn the_committed_reference_is_the_one_of_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/configuration.md");
    let text = threadline::config::reference();
    if std::env::var_os("UPDATE_CONFIGURATION").is_some() {
        fs::write(&path, &text).expect("written");
    }
    assert!(
        fs::read_to_string(&path).unwrap_or_default() == text,
        "docs/configuration.md is not what the code says. If the change is wanted:\n\
         UPDATE_CONFIGURATION=1 cargo test --test e2e configuration"
    );
    assert_eq!(good(&["config", "--reference"], &[]), text);
}

#[test]
fn the_sources_come_in_their_order() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("threadline.toml");
    fs::write(&file, "lock_ttl_seconds = 1\nlog = \"debug\"\nlisten = \"127.0.0.1:1\"\n[limits]\nuser_runs = 1\n")
        .expect("written");
    let file = file.to_str().expect("text");
    let variables = [
        ("THREADLINE_CONFIG", file),
        ("THREADLINE_LOCK_TTL_SECONDS", "2"),
        ("THREADLINE_LISTEN", "127.0.0.1:2"),
        ("THREADLINE_LIMIT_USER_RUNS", "2"),
        ("THREADLINE_ALLOWED_ORIGINS", "https://a.example,https://b.example"),
        ("THREADLINE_API_KEY", "s3cret-s3cret-s3cret-0123"),
        ("THREADLINE_REDIS", "redis://:s3cret@cache/0"),
    ];
    let shown = good(&["config", "--lock-ttl-seconds", "3"], &variables);
    for line in [
        "# from the command line\nlock_ttl_seconds = 3\n",
        "# from the environment: THREADLINE_LISTEN\nlisten = \"127.0.0.1:2\"\n",
        "# from the file\nlog = \"debug\"\n",
        "# default\ndata = \"./data\"\n",
        "# from the environment: THREADLINE_LIMIT_USER_RUNS\nuser_runs = 2\n",
        "# from the environment: THREADLINE_ALLOWED_ORIGINS\nallowed_origins = [\"https://a.example\", \"https://b.example\"]\n",
        "redis = \"redis://cache/0\"\n",
        "api_key_file: set\n",
    ] {
        assert!(shown.contains(line), "{line} in {shown}");
    }
    assert!(!shown.contains("s3cret"), "{shown}");
    assert_eq!(good(&["config", "--check"], &variables), "The configuration is valid.\n");
}

#[test]
fn an_empty_variable_counts_as_not_set() {
    let empty: Vec<_> = ["LISTEN", "DATA", "STORE", "REDIS", "LOCK_TTL_SECONDS", "LOG", "LOG_FORMAT", "CONFIG"]
        .iter()
        .map(|name| format!("THREADLINE_{name}"))
        .collect();
    let variables: Vec<_> = empty.iter().map(|name| (name.as_str(), "")).collect();
    assert_eq!(good(&["config"], &variables), good(&["config"], &[]));
    // For other commands as well: this one names its store by the same variable.
    let (_, error) = said(&threadline(&["migrate"], &[("THREADLINE_STORE", "")]));
    assert!(error.contains("--store <URL>") && error.contains("required"), "{error}");
}

#[test]
fn a_key_that_protects_nothing_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let (file, data) = (directory.path().join("key"), directory.path().join("data"));
    let (path, data) = (file.to_str().expect("text"), data.to_str().expect("text"));
    let refused = |variables: &[(&str, &str)], words: &[&str]| {
        for arguments in [&["serve", "--listen", "127.0.0.1:0", "--data", data][..], &["config", "--check"]] {
            let output = threadline(arguments, variables);
            let (out, error) = said(&output);
            assert_eq!((output.status.code(), out.as_str()), (Some(2), ""), "{variables:?}: {error}");
            assert!(words.iter().all(|word| error.contains(word)), "{variables:?}: {error}");
        }
    };
    // A secret that came out empty is an error, whatever else names a key.
    const GOOD: &str = "0123456789abcdefghijkl";
    fs::write(&file, GOOD).expect("written");
    fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("ours");
    for blank in ["", "  ", "\n"] {
        refused(&[("THREADLINE_API_KEY", blank)], &["THREADLINE_API_KEY", "blank", "unset"]);
        let both = [("THREADLINE_API_KEY", blank), ("THREADLINE_API_KEY_FILE", path)];
        refused(&both, &["THREADLINE_API_KEY", "blank"]);
    }
    for blank in ["", " "] {
        refused(&[("THREADLINE_API_KEY_FILE", blank)], &["THREADLINE_API_KEY_FILE", "blank", "path"]);
    }
    let short = "s3cret-of-21-letters!";
    refused(&[("THREADLINE_API_KEY", short)], &["THREADLINE_API_KEY", "21 characters", "at least 22", "openssl rand"]);
    // What surrounds a key does not count.
    refused(&[("THREADLINE_API_KEY", "   s3cret-of-21-letters!\n")], &["21 characters"]);
    fs::write(&file, format!("{short}\n")).expect("written");
    refused(&[("THREADLINE_API_KEY_FILE", path)], &[path, "21 characters", "at least 22"]);
    fs::write(&file, " \n").expect("written");
    refused(&[("THREADLINE_API_KEY_FILE", path)], &[path, "the file is empty"]);
    let repeated = "s3cret-".repeat(5);
    refused(
        &[("THREADLINE_API_KEY", &repeated)],
        &["THREADLINE_API_KEY", "7 different", "at least 10", "openssl rand"],
    );
    fs::write(&file, &repeated).expect("written");
    refused(&[("THREADLINE_API_KEY_FILE", path)], &[path, "7 different"]);
    // Neither a key nor development mode, and both.
    let commands = ["THREADLINE_API_KEY", "openssl rand -hex 32", "threadline serve", "threadline dev"];
    refused(&[], &commands);
    refused(&[("THREADLINE_DEVELOPMENT", "")], &commands);
    refused(&[("THREADLINE_DEVELOPMENT", "false")], &commands);
    let on = ("THREADLINE_DEVELOPMENT", "true");
    refused(&[on, ("THREADLINE_API_KEY", GOOD)], &["development mode", "THREADLINE_API_KEY"]);
    fs::write(&file, GOOD).expect("written");
    refused(&[on, ("THREADLINE_API_KEY_FILE", path)], &["development mode", path]);
    refused(&[on, ("THREADLINE_API_KEY", " ")], &["blank"]);
    let output = threadline(&["dev", "--listen", "127.0.0.1:0", "--data", data], &[("THREADLINE_API_KEY", GOOD)]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output).1);
    let output = threadline(&["dev", "--listen", "0.0.0.0:0", "--data", data], &[]);
    let (_, error) = said(&output);
    assert!(!output.status.success() && error.contains("in development mode"), "{error}");
    assert!(!Path::new(data).exists(), "nothing is touched");
    assert_eq!(good(&["config", "--check"], &[on]), "The configuration is valid.\n");
    assert!(good(&["config", "--development"], &[]).contains("# from the command line\ndevelopment = true\n"));
    assert_eq!(good(&["config", "--check"], &[("THREADLINE_API_KEY_FILE", path)]), "The configuration is valid.\n");
}

/// A user who can change a file of keys can put in other ones, and one who can read it has the keys.
#[test]
fn files_of_keys_that_others_can_use_are_refused() {
    // Not in memory, where such a file may be readable.
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let [api, secret, store, redis, data] =
        ["api", "secret", "store", "redis", "data"].map(|name| directory.path().join(name));
    fs::write(&api, "0123456789abcdefghijkl").expect("written");
    fs::write(&store, "postgres://u:s3cret@127.0.0.1:1/t").expect("written");
    fs::write(&redis, "redis://:s3cret@127.0.0.1:1/").expect("written");
    fs::write(&secret, format!("k1:{}=\n", "A".repeat(43))).expect("written");
    let data = data.to_str().expect("text");
    for (name, file, development) in [
        ("THREADLINE_API_KEY_FILE", &api, "false"),
        ("THREADLINE_SECRET_KEY_FILE", &secret, "true"),
        ("THREADLINE_STORE_FILE", &store, "true"),
        ("THREADLINE_REDIS_FILE", &redis, "true"),
    ] {
        let variables = [(name, file.to_str().expect("text")), ("THREADLINE_DEVELOPMENT", development)];
        for (mode, advice) in [(0o660, "chmod go-w"), (0o602, "chmod go-w"), (0o644, "chmod o-r")] {
            fs::set_permissions(file, Permissions::from_mode(mode)).expect("ours");
            for arguments in [&["serve", "--listen", "127.0.0.1:0", "--data", data][..], &["config", "--check"]] {
                let output = threadline(arguments, &variables);
                let (out, error) = said(&output);
                assert_eq!((output.status.code(), out.as_str()), (Some(2), ""), "{mode:o}: {error}");
                assert!(error.contains(advice) && error.contains(variables[0].1), "{mode:o}: {error}");
            }
            let left = fs::metadata(file).expect("there").permissions().mode();
            assert_eq!(left & 0o777, mode, "the mode is the operator's");
        }
        for mode in [0o600, 0o440] {
            fs::set_permissions(file, Permissions::from_mode(mode)).expect("ours");
            assert_eq!(good(&["config", "--check"], &variables), "The configuration is valid.\n");
        }
    }
    assert!(!Path::new(data).exists(), "nothing is touched");
}

#[test]
fn files_of_secret_keys_are_checked_and_not_shown() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("secret.key");
    let path = file.to_str().expect("text");
    for (text, reason) in [("", "no key"), ("s3cret", "line 1"), ("k:AAAA", "line 1"), ("a b:s3cret", "line 1")] {
        fs::write(&file, text).expect("written");
        fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("ours");
        let output = threadline(&["config", "--check"], &[("THREADLINE_SECRET_KEY_FILE", path)]);
        let (_, error) = said(&output);
        assert!(output.status.code() == Some(2) && error.contains(reason) && error.contains(path), "{text}: {error}");
        assert!(!error.contains("s3cret"), "{error}");
    }
    let blank = threadline(&["config", "--check"], &[("THREADLINE_SECRET_KEY_FILE", "")]);
    assert!(blank.status.code() == Some(2) && said(&blank).1.contains("THREADLINE_SECRET_KEY_FILE is set but blank"));
}

/// A URL with a password is neither an argument nor a variable, and a node never chooses between two.
#[test]
fn urls_with_passwords_are_read_from_files() {
    let directory = tempfile::tempdir().expect("a directory");
    let [store, redis, other, configuration] =
        ["store", "redis", "other", "threadline.toml"].map(|name| directory.path().join(name));
    let secret = |file: &Path, text: &str| {
        fs::write(file, text).expect("written");
        fs::set_permissions(file, Permissions::from_mode(0o600)).expect("ours");
    };
    let path = |file: &Path| file.to_str().expect("text").to_owned();
    let (store_path, redis_path, other_path) = (path(&store), path(&redis), path(&other));
    let refused = |arguments: &[&str], variables: &[(&str, &str)], words: &[&str]| {
        let output = threadline(arguments, variables);
        let (out, error) = said(&output);
        assert_eq!((output.status.code(), out.as_str()), (Some(2), ""), "{arguments:?} {variables:?}: {error}");
        assert!(words.iter().all(|word| error.contains(word)), "{arguments:?} {variables:?}: {error}");
        assert!(!error.contains("s3cret"), "{error}");
    };
    let development = ("THREADLINE_DEVELOPMENT", "true");
    let (in_store, in_redis) = (("THREADLINE_STORE_FILE", &*store_path), ("THREADLINE_REDIS_FILE", &*redis_path));
    // Blanks around a URL do not count, as with keys.
    secret(&store, "  postgresql://u:s3cret@db/t\n");
    secret(&redis, "rediss://:s3cret@cache/0\n");
    let shown = good(&["config"], &[development, in_store, in_redis]);
    for line in [
        format!("# from the environment: THREADLINE_STORE_FILE\nstore_file = \"{store_path}\"\n"),
        format!("# from the environment: THREADLINE_REDIS_FILE\nredis_file = \"{redis_path}\"\n"),
        "# not set: store\n".to_owned(),
    ] {
        assert!(shown.contains(&line), "{line} in {shown}");
    }
    assert!(!shown.contains("s3cret"), "{shown}");
    fs::write(&configuration, format!("store_file = {store_path:?}\n")).expect("written");
    let file = path(&configuration);
    assert_eq!(good(&["config", "--check", "--config", &file], &[development]), "The configuration is valid.\n");
    // Two URLs, in any two of the places.
    let (url, cache) = (("THREADLINE_STORE", "postgres://u:s3cret@db/t"), ("THREADLINE_REDIS", "redis://:s3cret@h/"));
    refused(&["config", "--check"], &[development, in_store, url], &["--store", "--store-file", "use one"]);
    refused(&["config", "--check"], &[development, in_redis, cache], &["--redis", "--redis-file", "use one"]);
    refused(&["config", "--check", "--config", &file], &[development, url], &["--store-file"]);
    refused(&["serve", "--store", url.1], &[development, in_store], &["--store-file"]);
    for command in [&["migrate"][..], &["lineage", "list"], &["secrets", "reseal"], &["export", &other_path]] {
        refused(command, &[in_store, url], &["--store-file", "use one"]);
        refused(command, &[("THREADLINE_STORE_FILE", &other_path)], &[&other_path, "cannot read"]);
    }
    refused(&["verify", "--store-file", &other_path], &[], &[&other_path, "cannot read"]);
    assert!(!other.exists(), "nothing is touched");
    // An empty variable of a URL is none, and that of a file is an error: the node would have another store.
    assert!(good(&["config"], &[development, in_store, ("THREADLINE_STORE", "")]).contains("store_file = "));
    for name in ["THREADLINE_STORE_FILE", "THREADLINE_REDIS_FILE"] {
        refused(&["config", "--check"], &[development, (name, "")], &[name, "blank"]);
    }
    for text in ["", "\n", "s3cret", "mysql://u:s3cret@db/t", "postgres://u:s3cret@db/t postgres://u:s3cret@db/t"] {
        secret(&other, text);
        let broken = ("THREADLINE_STORE_FILE", &*other_path);
        refused(&["config", "--check"], &[development, broken], &[&other_path, "--store"]);
        refused(&["migrate"], &[broken], &[&other_path, "--store"]);
    }
}

#[test]
fn the_version_and_what_the_program_was_built_from() {
    let version = format!("threadline {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!((good(&["version"], &[]), good(&["--version"], &[])), (version.clone(), version));
    let bill: serde_json::Value = serde_json::from_str(&good(&["version", "--sbom"], &[])).expect("JSON");
    assert_eq!((&bill["bomFormat"], &bill["specVersion"]), (&"CycloneDX".into(), &"1.6".into()));
    assert_eq!(bill["metadata"]["component"]["version"], env!("CARGO_PKG_VERSION"));
    let scope = |name: &str| {
        let components = bill["components"].as_array().expect("a list");
        components.iter().find(|component| component["name"] == name).map(|component| component["scope"].clone())
    };
    assert_eq!((scope("axum"), scope("react")), (Some("required".into()), Some("required".into())));
    assert_eq!((scope("serde_derive"), scope("turmoil")), (Some("excluded".into()), None));
}

#[test]
fn invalid_configuration_ends_the_program_before_it_starts() {
    let directory = tempfile::tempdir().expect("a directory");
    let (file, data) = (directory.path().join("threadline.toml"), directory.path().join("data"));
    fs::write(&file, "\n[limits]\nuser_runns = 1\n").expect("written");
    let (file, data) = (file.to_str().expect("text"), data.to_str().expect("text"));
    for arguments in [
        &["config", "--config", file][..],
        &["config", "--check", "--config", file],
        &["serve", "--config", file, "--data", data],
    ] {
        let output = threadline(arguments, &[]);
        let (out, error) = said(&output);
        assert_eq!((output.status.code(), out.as_str()), (Some(2), ""), "{error}");
        assert!(error.contains("line 3") && error.contains("did you mean [limits] user_runs"), "{error}");
    }
    let output = threadline(&["config"], &[("THREADLINE_LOCK_TTL_SECONDS", "5000")]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output).1);
    assert!(!Path::new(data).exists());
}

#[test]
fn help_does_not_show_the_values_of_variables() {
    let variables = [("THREADLINE_STORE", "postgres://u:s3cret@db/t"), ("THREADLINE_USER", "s3cret")];
    for flag in ["-h", "--help"] {
        for command in ["serve", "dev", "export", "migrate", "tail", "config"] {
            let shown = good(&[command, flag], &variables);
            assert!(shown.contains("[env: THREADLINE_") && !shown.contains("s3cret"), "{command} {flag}: {shown}");
        }
    }
}
