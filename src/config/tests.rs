use std::{collections::HashMap, fs, os::unix::fs::PermissionsExt};

use super::*;
use threadline_core::agent::AgentKind;
use threadline_store::private::KeyFileError;

/// Loads the configuration from these flags, this file and these variables (other than those that clap reads).
fn of(flags: &[&str], file: &str, variables: &[(&str, &str)]) -> Result<Configuration, String> {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("threadline.toml");
    fs::write(&path, file).expect("written");
    let path = path.to_string_lossy().into_owned();
    let line = ["threadline", "--config", &path].into_iter().chain(flags.iter().copied());
    let variables: HashMap<_, _> = variables.iter().copied().collect();
    let matches = setting::command().try_get_matches_from(line).map_err(|error| error.to_string())?;
    let environment = |name: &str| variables.get(name).map(OsString::from);
    load_with(&matches, StartCommand::Serve, environment).map_err(|error| error.to_string())
}

/// Authentication by these flags, this file and these variables, as the command chooses it.
fn authenticates(command: StartCommand, flags: &[&str], variables: &[(&str, &str)]) -> Result<bool, String> {
    let line = ["threadline"].into_iter().chain(flags.iter().copied());
    let matches = setting::command().try_get_matches_from(line).map_err(|error| error.to_string())?;
    let variables: HashMap<_, _> = variables.iter().copied().collect();
    let environment = |name: &str| variables.get(name).map(OsString::from);
    let configuration = load_with(&matches, command, environment).map_err(|error| error.to_string())?;
    let authentication = configuration.authentication().map_err(|error| error.to_string())?;
    Ok(*authentication != Authentication::Development)
}

fn refused(file: &str) -> String {
    match of(&[], file, &[]) {
        Ok(_) => panic!("taken: {file}"),
        Err(error) => error,
    }
}

#[test]
fn flags_win_over_the_file_and_the_file_over_defaults() {
    let file = "lock_ttl_seconds = 30\nlisten = \"127.0.0.1:1\"\nlog_format = \"json\"\n\
                allowed_origins = [\"https://a.example\", \"https://b.example\"]\n\
                [limits]\nuser_requests_per_second = 7\nproject_runs = 3\n";
    let configuration = of(&["--listen", "127.0.0.1:2", "--limit-user-runs", "0"], file, &[]).expect("a configuration");
    let args = &configuration.args;
    assert_eq!((args.listen.port, args.lock_ttl_seconds, args.lock_heartbeat_interval_seconds), (2, 30, 15));
    assert_eq!(args.log_format, LogFormat::Json);
    assert!(
        configuration.origins.contains("https://b.example") && !configuration.origins.contains("https://c.example")
    );
    let limits = configuration.limits;
    assert_eq!((limits.user.requests_per_second, limits.user.runs, limits.user.sockets), (7, 0, 32));
    assert_eq!((limits.project.runs, limits.project.sockets), (3, 0));
    // Development mode takes only limits that were set explicitly.
    assert_eq!((limits.development.requests_per_second, limits.development.sockets), (7, 0));
    // An empty file and no flags give the defaults.
    let nothing = of(&[], "", &[]).expect("a configuration").limits;
    // The memory follows from that of the machine.
    assert_eq!(nothing, Limits { memory: nothing.memory, ..Limits::default() });
}

#[test]
fn errors_of_a_configuration_file_name_their_line() {
    for (file, line, what) in [
        ("lisen = \"x\"\n", 1, "did you mean listen?"),
        ("\n\nlock_ttl = 5\n", 3, "did you mean lock_ttl_seconds"),
        ("lock-ttl-seconds = 5\n", 1, "lock_ttl_seconds"),
        ("user_requests_per_second = 5\n", 1, "[limits] user_requests_per_second"),
        ("limit_user_runs = 5\n", 1, "[limits] user_runs"),
        ("[limits]\n\nlisten = \"x\"\n", 3, "did you mean listen?"),
        ("zzzz = 1\n", 1, "the settings are listen, admin_listen, data, store"),
        ("[agent.a]\n", 1, "[agents.trips]"),
        ("api_key = \"s3cret\"\n", 1, "api_key_file"),
        ("lock_ttl_seconds = 0\n", 1, "0 is not in 1..=3600"),
        ("lock_ttl_seconds = \"soon\"\n", 1, "lock_ttl_seconds: invalid digit"),
        ("data = 1.5\n", 1, "expected one value"),
        ("data = [\"a\"]\n", 1, "expected one value"),
        ("allowed_origins = [[\"a\"]]\n", 1, "a list of strings"),
        ("allowed_origins = [\"app.example.com\"]\n", 1, "without a path"),
        ("log_format = \"xml\"\n", 1, "possible values: text, json"),
        ("log = \"a=b=c\"\n", 1, "log: "),
        ("store = \"mysql://u:s3cret@h\"\n", 1, "postgres://user:password@host/database"),
        ("listen = \"here\"\nlisten = \"there\"\n", 2, "duplicate key"),
        ("limits = 3\n", 1, "unknown setting limits"),
        ("[limits]\nuser_runs = -1\n", 2, "user_runs"),
        ("listen = \n", 1, "invalid configuration"),
        ("[agents.a]\nurl = 7\n", 2, "invalid configuration"),
        ("[agents.a]\nurl = \"http://x\"\nheaders = { A = \"s3cret\", B = 5 }\n", 3, "invalid configuration"),
    ] {
        let error = refused(file);
        assert!(error.contains(&format!("line {line}:")) && error.contains(what), "{file}: {error}");
        assert!(!error.contains("s3cret"), "{error}");
    }
    let missing = ["threadline", "--config", "/nowhere/threadline.toml"];
    let matches = setting::command().try_get_matches_from(missing).expect("a line");
    assert!(load(&matches, StartCommand::Serve).is_err_and(|error| error.to_string().contains("/nowhere")));
}

#[test]
fn the_file_and_the_flags_name_agents() {
    let file = "[agents.trips]\nurl = \"http://x/\"\nheaders = { A = \"b\" }\non_disconnect = \"stop\"\n\
                [agents.flag]\nurl = \"http://overridden/\"\n\
                [agents.chat]\nkind = \"openai\"\nbase_url = \"http://x/v1\"\nmodel = \"m\"\n";
    let agents = of(&["--agent", "flag=http://127.0.0.1:9/"], file, &[]).expect("a configuration").agents;
    let names: Vec<_> = agents.into_iter().map(|agent| agent.id.to_string()).collect();
    assert_eq!(names, ["chat", "flag", "trips"]);
    let keyed = "[agents.a]\nkind = \"openai\"\nbase_url = \"http://x\"\nmodel = \"m\"\napi_key_env = \"A_KEY\"\n";
    for (file, what) in [
        ("[agents.a]\n", "url is missing"),
        ("[agents.\"\"]\nurl = \"http://x\"\n", "must not be empty"),
        (keyed, "no variable"),
    ] {
        assert!(refused(file).contains(what), "{file}");
    }
    assert!(of(&[], keyed, &[("A_KEY", "k")]).is_ok());
    let twice = of(&["--agent", "a=http://x", "--agent", "a=http://y"], "", &[]);
    assert!(twice.is_err_and(|error| error.contains("twice")));
}

/// Writes a file that only its owner can read.
fn key_file(path: &Path, text: &str) {
    fs::write(path, text).expect("written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("ours");
}

#[test]
fn the_key_comes_from_the_environment_or_from_a_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let (good, empty) = (directory.path().join("key"), directory.path().join("empty"));
    key_file(&good, "from the file, 22 signs\n");
    key_file(&empty, "\n");
    let key = |file: Option<&Path>, variable: Option<&str>| {
        operator_key(variable.map(OsString::from), file).map(|key| key.map(|key| key.text))
    };
    assert_eq!(key(Some(&good), None).expect("a key").as_deref(), Some("from the file, 22 signs"));
    let of_variable = key(Some(&good), Some(" of the variable, 22 signs\n")).expect("a key");
    assert_eq!(of_variable.as_deref(), Some("of the variable, 22 signs"));
    assert_eq!(key(None, None).expect("none"), None);
    // A secret that was not mounted, or came out empty, is never taken for one that was not wanted.
    assert!(matches!(key(Some(&empty), None), Err(ConfigError::NoKey(_))));
    assert!(matches!(key(Some(&good), Some(" \n")), Err(ConfigError::BlankKey(_))));
    // The bound counts characters, not bytes.
    let umlauts = format!("{}0123456789", "\u{fc}".repeat(11));
    assert!(matches!(key(None, Some(&umlauts)), Err(ConfigError::ShortKey { chars: 21, .. })));
    assert!(key(None, Some(&format!("{umlauts}\u{fc}"))).is_ok());
    // A word that is repeated is long, and easy to guess.
    let repeated = "password!".repeat(5);
    assert!(matches!(key(None, Some(&repeated)), Err(ConfigError::UniformKey { different: 8, .. })));
    assert!(key(None, Some(&format!("{repeated}12"))).is_ok());
    assert!(matches!(key(Some(Path::new("/nowhere")), None), Err(ConfigError::KeyFile(KeyFileError::Io(..)))));
}

#[test]
fn development_mode_and_a_key_exclude_each_other_and_one_of_them_is_chosen() {
    use StartCommand::{Dev, Serve};
    const KEY: (&str, &str) = (API_KEY_VARIABLE, "0123456789abcdefghijkl");
    for (command, flags, variables, keyed) in [
        (Serve, &["--development"][..], &[][..], false),
        (Serve, &["--development=true"], &[], false),
        (Dev, &[], &[], false),
        (Dev, &["--development"], &[], false),
        (Serve, &[], &[KEY], true),
        (Serve, &["--development=false"], &[KEY], true),
        (Dev, &["--development=false"], &[KEY], true),
    ] {
        assert_eq!(authenticates(command, flags, variables), Ok(keyed), "{command:?} {flags:?}");
    }
    for (command, flags) in [(Serve, &[][..]), (Serve, &["--development=false"]), (Dev, &["--development=false"])] {
        let refused = authenticates(command, flags, &[]).expect_err("neither");
        assert!(refused.contains("threadline serve") && refused.contains("threadline dev"), "{refused}");
    }
    for (command, flags) in [(Serve, &["--development"][..]), (Dev, &[])] {
        let refused = authenticates(command, flags, &[KEY]).expect_err("both");
        assert!(refused.contains(API_KEY_VARIABLE) && refused.contains("development mode"), "{refused}");
        assert!(!refused.contains(KEY.1), "{refused}");
        let refused = authenticates(command, flags, &[(API_KEY_VARIABLE, " ")]).expect_err("blank");
        assert!(refused.contains("blank"), "{refused}");
    }
}

#[test]
fn the_endpoint_for_names_is_whole_or_not_there() {
    assert!(of(&[], "", &[]).is_ok_and(|it| it.args.generate_thread_names && it.naming_endpoint.is_none()));
    for off in ["generate_thread_names = false\n", "generate_thread_names = \"false\"\n"] {
        assert!(of(&[], off, &[]).is_ok_and(|it| !it.args.generate_thread_names));
    }
    let on = of(&["--generate-thread-names", "true"], "generate_thread_names = false\n", &[]);
    assert!(on.is_ok_and(|it| it.args.generate_thread_names));
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("key");
    key_file(&path, "from-the-file\n");
    let url = "naming_base_url = \"https://models.test/v1/\"\n";
    let (model, file) = ("naming_model = \"m\"\n", format!("naming_api_key_file = {:?}\n", path));
    let key = |text: &str, variables: &[(&str, &str)]| {
        let endpoint = of(&[], text, variables).expect("a configuration").naming_endpoint.expect("an endpoint");
        let AgentKind::OpenAi { base_url, model, api_key, .. } = endpoint.kind else { panic!("{endpoint:?}") };
        assert_eq!((base_url.as_str(), model.as_str()), ("https://models.test/v1", "m"));
        api_key.map(|key| key.reveal().to_owned())
    };
    let both = format!("{url}{model}");
    assert_eq!(key(&both, &[]), None);
    assert_eq!(key(&both, &[(NAMING_KEY_VARIABLE, "k ")]).as_deref(), Some("k"));
    assert_eq!(key(&format!("{both}{file}"), &[]).as_deref(), Some("from-the-file"));
    for (text, what) in [
        (url.to_owned(), "without naming_model"),
        (model.to_owned(), "without naming_base_url"),
        (file, "naming_api_key_file is set without"),
        (format!("{model}naming_base_url = \"ftp://x\"\n"), "http://"),
        (format!("{model}naming_base_url = \"https://u:s3cret@x\"\n"), "user or password"),
        (format!("{both}naming_api_key_file = \"/nowhere/key\"\n"), "/nowhere/key"),
        ("generate_thread_names = \"maybe\"\n".to_owned(), "generate_thread_names"),
    ] {
        let error = refused(&text);
        assert!(error.contains(what) && !error.contains("s3cret"), "{text}: {error}");
    }
    let broken = of(&[], &both, &[(NAMING_KEY_VARIABLE, "a\nb")]);
    assert!(broken.is_err_and(|error| error.contains("endpoint for thread names")));
}

#[test]
fn the_effective_configuration_is_a_file_again_and_has_no_secrets() {
    let file = "lock_key_prefix = \"a \\\"b\\\"\"\n[limits]\nuser_runs = 5\n\
                [agents.a]\nurl = \"http://x/\"\nheaders = { Authorization = \"s3cret\" }\non_disconnect = \"stop\"\n\
                [agents.b]\nkind = \"openai\"\nbase_url = \"http://x\"\nmodel = \"m\"\napi_key = \"s3cret\"\n";
    let flags = ["--store", "postgres://u:s3cret@db/t", "--redis", "redis://:s3cret@cache/0", "--agent", "c=http://y/"];
    let configuration =
        of(&flags, file, &[("THREADLINE_API_KEY", "s3cret-s3cret-s3cret-0123")]).expect("a configuration");
    let shown = configuration.to_toml();
    assert!(!shown.contains("s3cret"), "{shown}");
    for line in [
        "# from the command line; user, password and parameters are hidden\nstore = \"postgres://db/t\"",
        "# from the file\nlock_key_prefix = \"a \\\"b\\\"\"",
        "# default\nlisten = \"127.0.0.1:7420\"",
        "# default\ndevelopment = false",
        "# not set: api_key_file",
        "# from the file\nuser_runs = 5",
        "# default\ngenerate_thread_names = true",
        "# THREADLINE_NAMING_API_KEY, or the file named by naming_api_key_file: not set",
        "# from the command line\n[agents.\"c\"]",
        "# from the file\n[agents.\"a\"]",
    ] {
        assert!(shown.contains(line), "{line} in {shown}");
    }
    let again = of(&[], &shown, &[]).expect("a configuration again");
    let agents =
        |configuration: &Configuration| configuration.agents.iter().map(|it| it.id.clone()).collect::<Vec<_>>();
    assert_eq!(agents(&again), agents(&configuration));
    assert_eq!(again.limits.user, configuration.limits.user);
    for (before, after) in configuration.chosen.iter().zip(&again.chosen) {
        assert!(before.setting.holds_secrets() || before.values == after.values, "{}", before.setting.name);
    }
}

#[test]
fn every_setting_has_a_variable_and_a_place_in_the_file() {
    let settings = setting::all();
    assert!(settings.len() > 30);
    let (mut keys, mut variables) = (BTreeSet::new(), BTreeSet::new());
    for setting in &settings {
        let variable = setting.variable().expect("a variable");
        let expected = format!("THREADLINE_{}", setting.flag().replace('-', "_").to_uppercase());
        assert_eq!(variable, expected);
        assert!(keys.insert(setting.key()) && variables.insert(variable), "{}", setting.key());
        assert!(setting.arg.get_help().is_some(), "{}", setting.key());
    }
}
