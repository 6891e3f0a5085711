//! One command builds the laboratory, another removes it, whatever became of it in between.
#![allow(clippy::unwrap_used)] // helpers of tests stand outside of test functions here

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use rhumb_lab::Namespace;
use std::{fs, process::Command, time::Duration};

fn lab(prefix: &str, what: &str) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_lab")).args(["--prefix", prefix, what]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.success(), said)
}

fn count(prefix: &str) -> usize {
    Namespace::all(&format!("{prefix}-")).len()
}

#[test]
fn the_laboratory_comes_up_and_goes_even_after_a_kill() {
    let prefix = format!("c{}", std::process::id());
    let (up, said) = lab(&prefix, "up");
    if !up && (said.contains("needed") || said.contains("Operation not permitted")) {
        eprintln!("skipped: {said}");
        return;
    }
    assert!(up, "{said}");
    assert_eq!(count(&prefix), 10);
    let (_, listed) = lab(&prefix, "status");
    assert_eq!(listed.lines().count(), 10, "{listed}");
    let holder = || fs::read_to_string(format!("/run/rhumb-{prefix}.pid")).unwrap().trim().parse::<i32>().unwrap();
    let first = holder();
    // up again is anew
    assert!(lab(&prefix, "up").0);
    assert_ne!(holder(), first);
    kill(Pid::from_raw(holder()), Signal::SIGKILL).unwrap();
    while fs::read_to_string(format!("/proc/{}/stat", holder())).is_ok_and(|stat| !stat.contains(") Z ")) {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(count(&prefix), 10, "what a kill leaves");
    let (down, said) = lab(&prefix, "down");
    assert!(down, "{said}");
    assert_eq!(count(&prefix), 0);
    assert!(lab(&prefix, "down").0, "and again");
}
