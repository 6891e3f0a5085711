//! The supervisor alone, for nodes that share the runs' folder and have no agent: `rhumb-supervisor __supervise DIR`.

use rhumb_runtimes::{SUPERVISE, supervise_main};
use std::{path::PathBuf, process::ExitCode};

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    match (words.next(), words.next(), words.next()) {
        (Some(verb), Some(folder), None) if verb == SUPERVISE => supervise_main(&PathBuf::from(folder)),
        _ => {
            eprintln!("usage: rhumb-supervisor {SUPERVISE} DIR, as the agent calls it");
            ExitCode::from(2)
        }
    }
}
