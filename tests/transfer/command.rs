//! The real program, with its commands to export and to import.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// How a command has ended.
#[derive(Debug)]
pub struct Ended {
    pub ok: bool,
    pub out: String,
    pub err: String,
}

pub fn command(verb: &str, data: &Path, files: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_threadline"));
    command.arg(verb).arg("--data").arg(data).arg(files);
    for name in ["API_KEY", "USER", "DATA", "URL", "STORE", "REDIS", "SECRET_KEY_FILE"] {
        command.env_remove(format!("THREADLINE_{name}"));
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs a command to its end.
pub fn run(mut command: Command) -> Ended {
    let output = command.output().expect("the program runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    Ended { ok: output.status.success(), out: text(output.stdout), err: text(output.stderr) }
}

/// Exports everything, also the secrets.
pub fn export(data: &Path, files: &Path) -> Ended {
    run(whole_export(data, files))
}

pub fn whole_export(data: &Path, files: &Path) -> Command {
    let mut command = command("export", data, files);
    command.arg("--with-secrets");
    command
}

pub fn import(data: &Path, files: &Path) -> Ended {
    run(command("import", data, files))
}

impl Ended {
    /// What a success has printed.
    pub fn done(self) -> String {
        assert!(self.ok, "{self:?}");
        self.out
    }

    /// The error output of a failure.
    pub fn failed(self) -> String {
        assert!(!self.ok, "{self:?}");
        self.err
    }
}

/// Every file of an export with its bytes; of the manifest all but its first and last line, which name the moment.
pub fn files(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(next) = directories.pop() {
        for entry in fs::read_dir(next).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                directories.push(path);
                continue;
            }
            let mut bytes = fs::read(&path).expect("a file");
            if path.ends_with("manifest.ndjson") {
                let lines: Vec<_> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
                bytes = lines[1..lines.len() - 1].concat();
            }
            found.push((path.strip_prefix(directory).expect("below").to_owned(), bytes));
        }
    }
    found.sort();
    found
}

/// Both exports are the same, file for file and byte for byte.
pub fn assert_same_files(left: &Path, right: &Path) {
    let (left, right) = (files(left), files(right));
    assert!(left.len() > 3, "there are no threads");
    let names = |files: &[(PathBuf, Vec<u8>)]| files.iter().map(|file| file.0.clone()).collect::<Vec<_>>();
    assert_eq!(names(&left), names(&right));
    for (left, right) in left.iter().zip(&right) {
        assert!(left.1 == right.1, "{} differs", left.0.display());
    }
}
