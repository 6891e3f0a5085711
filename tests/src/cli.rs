//! The command line, as a user's script sees it.

use serde_json::Value;
use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// `rhumb` of this build.
///
/// # Panics
/// When it is not there: a test must not pass by having run nothing.
pub fn binary() -> PathBuf {
    if let Some(named) = std::env::var_os("RHUMB_BIN") {
        return named.into();
    }
    // target/PROFILE/deps/it-0123: the binary stands two steps up
    let own = std::env::current_exe().expect("a test knows its own file");
    let found = own.parent().and_then(Path::parent).map(|profile| profile.join("rhumb"));
    let found = found.expect("a test's file stands in a folder of a folder");
    assert!(found.exists(), "{} is missing: build it first: ./dev build", found.display());
    found
}

/// The project's folder.
pub fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ stands in the project").to_path_buf()
}

/// What a command left behind.
#[derive(Debug)]
pub struct Answer {
    pub code: i32,
    /// Standard output, where it is JSON.
    pub json: Value,
    pub stdout: String,
    pub stderr: String,
}

/// Commands against one server.
#[derive(Debug, Clone)]
pub struct Cli {
    pub url: String,
    pub token: String,
    /// Data folder of the demo.
    pub data: PathBuf,
    /// Where documents are put that commands read.
    pub scratch: PathBuf,
    /// Network namespace that they run in, if not the test's own.
    pub inside: Option<String>,
}

impl Cli {
    /// Runs `rhumb ARGS -o json`.
    pub fn run(&self, args: &[&str]) -> Answer {
        self.run_with(args, "")
    }

    /// The same, with something on standard input.
    pub fn run_with(&self, args: &[&str], input: &str) -> Answer {
        let mut command = match &self.inside {
            None => Command::new(binary()),
            Some(space) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", space]).arg(binary());
                command
            }
        };
        let mut child = command
            .args(args)
            .args(["-o", "json"])
            .current_dir(project())
            .env("RHUMB_URL", &self.url)
            .env("RHUMB_TOKEN", &self.token)
            .env("XDG_CONFIG_HOME", &self.scratch)
            .env("NO_COLOR", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("rhumb can be started");
        let mut pipe = child.stdin.take().expect("standard input is a pipe");
        // a command that does not read its input closes it
        let _ = pipe.write_all(input.as_bytes());
        drop(pipe);
        let output = child.wait_with_output().expect("rhumb ends");
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        Answer {
            code: output.status.code().unwrap_or(-1),
            json: serde_json::from_str(&stdout).unwrap_or(Value::Null),
            stdout,
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// A command that must succeed.
    ///
    /// # Panics
    /// When it does not, with what it said.
    pub fn ok(&self, args: &[&str]) -> Value {
        self.run(args).done(args)
    }

    /// `rhumb demo ...` of this demo, which must succeed.
    pub fn demo(&self, args: &[&str]) -> Value {
        let data = self.data.display().to_string();
        let args = [&["demo"], args, &["--data", &data]].concat();
        self.ok(&args)
    }

    /// Puts a document where a command can read it.
    pub fn document(&self, name: &str, text: &str) -> String {
        let path = self.scratch.join(name);
        fs::write(&path, text).expect("the scratch folder can be written");
        path.display().to_string()
    }
}

impl Answer {
    /// The JSON of a command that must have succeeded.
    pub fn done(self, args: &[&str]) -> Value {
        assert_eq!(self.code, 0, "rhumb {} failed: {}{}", args.join(" "), self.stderr, self.stdout);
        self.json
    }
}
