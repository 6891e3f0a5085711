//! The supervisor alone, for a cluster's volume where the agent itself is too large or needs what images lack.

use rhumb_runtimes::{SUPERVISE, supervise_main};
use std::{path::PathBuf, process::ExitCode};

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    match words.as_slice() {
        [verb, folder] if verb == SUPERVISE => supervise_main(&PathBuf::from(folder)),
        _ => {
            eprintln!("usage: rhumb-pod-supervisor {SUPERVISE} DIR, as pods call it");
            ExitCode::from(2)
        }
    }
}
