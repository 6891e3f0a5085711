//! What cases run: small programs that a shell runs for real, and that the fake runs by itself.

use rhumb_model::NodeName;
use rhumb_runtimes::Work;
use serde::{Deserialize, Serialize};

/// The variable that tells the fake what a shell reads in the command.
pub(crate) const VARIABLE: &str = "CONTRACT_PROGRAM";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Program {
    Exit(i32),
    /// Dies by this signal.
    Die(i32),
    /// Prints text as it is, then exits.
    Print(String, i32),
    /// Prints bytes by a shell's `printf`, in its own escapes; the fake prints the second.
    Raw(String, Vec<u8>),
    /// One line of that many `x`.
    Line(usize),
    /// Prints `up`, waits for the file `end` in its folder, prints `down`, then exits.
    Wait(i32),
    /// Ends well at the polite signal, and says `saved`.
    Polite,
    /// Hears no polite signal.
    Deaf,
    /// Says `checkpoint` at SIGUSR1 and `end` at the polite signal.
    Checkpoint,
    /// Names its last checkpoint, then waits like `Wait`.
    Named(String, i32),
    /// Appends a line to the file `count` beside its folder.
    Count,
}

impl Program {
    pub fn work(&self, node: &NodeName) -> Work {
        let mut work = Work::bare(node.clone(), ["sh", "-c", &self.script()].map(str::to_owned).to_vec());
        work.env.insert("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into());
        work.env.insert(VARIABLE.into(), serde_json::to_string(self).unwrap());
        work.grace_ms = 1_000;
        work
    }

    fn script(&self) -> String {
        let wait = "while ! test -e end; do sleep 0.05; done";
        match self {
            Self::Exit(code) => format!("exit {code}"),
            Self::Die(signal) => format!("kill -{signal} $$; sleep 5"),
            Self::Print(text, code) => format!("printf '%s' '{text}'; exit {code}"),
            Self::Raw(text, _) => format!("printf '{text}'"),
            Self::Line(length) => format!("head -c {length} /dev/zero | tr '\\0' x; echo"),
            Self::Wait(code) => format!("echo up; {wait}; echo down; exit {code}"),
            Self::Polite => "trap 'echo saved; exit 0' TERM; echo up; while :; do sleep 0.02; done".into(),
            Self::Deaf => "trap '' TERM; echo up; while :; do sleep 0.02; done".into(),
            Self::Checkpoint => "trap 'echo checkpoint' USR1; trap 'echo end; exit 0' TERM; echo up; \
                                 while :; do sleep 0.02; done"
                .into(),
            Self::Named(name, code) => {
                format!("echo '{name}' > \"$RHUMB_CHECKPOINT_FILE\"; echo up; {wait}; exit {code}")
            }
            Self::Count => "echo once >> ../../count".into(),
        }
    }
}
