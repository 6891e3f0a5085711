//! The process is killed at every step: nothing that it owned is left when it is not wanted, and all is right when it is.

use crate::world::{Leg, Way, apply, at, clean, everything, kernel, lab, owner, same};
use rhumb_kernel::{Intent, Kernel, Stance};
use rhumb_lab::{Lab, Namespace, Router, Site};
use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

/// Tells the process that it is the one to be killed: where, and before which step.
const VICTIM: &str = "RHUMB_TEST_VICTIM";

/// Two ways of one leg by segments and by addresses, as they are while it moves.
fn legs() -> Vec<Leg> {
    let old = Leg::new(1, Way::Plane(Router::R1), 10);
    let new = Leg { owner: owner(1, 1, 1), stance: Stance::Idle, ..Leg::new(2, Way::Segments(Router::R2), 10) };
    vec![old, new]
}

/// Does one step after the other and says so before each; waits to be killed before the last one asked for.
fn victim(space: &Namespace, legs: &[Intent], most: usize) {
    kernel(space, async |kernel: &mut Kernel| {
        let (_, operations) = kernel.plan(legs).await?;
        for (step, operation) in operations.iter().enumerate() {
            if step == most {
                println!("step {step}");
                std::thread::park();
            }
            kernel.perform(std::slice::from_ref(operation)).await?;
        }
        println!("done");
        Ok(())
    });
}

/// Only in a process that was started to be killed.
#[test]
fn the_victim() {
    let Ok(order) = std::env::var(VICTIM) else { return };
    let (space, most) = order.split_once(' ').unwrap();
    victim(&Namespace::named(space), &at(Site::A, &legs()), most.parse().unwrap());
}

/// Whether it was killed before it had ended.
fn kill_before(lab: &Lab, step: usize) -> bool {
    let mut process = Command::new(std::env::current_exe().unwrap());
    process.args(["--exact", "crash::the_victim", "--nocapture", "--test-threads=1"]);
    process.env(VICTIM, format!("{} {step}", lab.site(Site::A).name())).stdout(Stdio::piped());
    let mut process = process.spawn().unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let said = lines.find_map(|line| line.ok().filter(|line| line.contains("step ") || line.contains("done"))).unwrap();
    process.kill().unwrap();
    process.wait().unwrap();
    said.contains("step ")
}

#[test]
fn killed_at_every_step_it_leaves_nothing_that_the_next_one_cannot_put_right() {
    let Some(lab) = lab() else { return };
    let empty = everything(&lab.site(Site::A));
    let mut killed = 0;
    for step in 0.. {
        if !kill_before(&lab, step) {
            break;
        }
        killed += 1;
        if step % 2 == 0 {
            // it is still wanted
            apply(&lab, Site::A, &legs());
            let rest =
                kernel(&lab.site(Site::A), async |kernel: &mut Kernel| Ok(kernel.plan(&at(Site::A, &legs())).await?.1));
            assert_eq!(rest, [], "after step {step}");
        }
        kernel(&lab.site(Site::A), async |kernel: &mut Kernel| Ok(clean(&kernel.clear().await?)));
        same(&everything(&lab.site(Site::A)), &empty);
    }
    assert!(killed > 12, "{killed} steps");
}

#[test]
fn a_laboratory_whose_holder_was_killed_can_be_removed() {
    let Some(lab) = lab() else { return };
    let prefix = lab.site(Site::A).name().strip_suffix("-a").unwrap().to_owned();
    // as a kill leaves it: nobody removes the namespaces
    std::mem::forget(lab);
    assert_eq!(Namespace::all(&format!("{prefix}-")).len(), 10);
    Lab::sweep(&prefix).unwrap();
    assert_eq!(Namespace::all(&format!("{prefix}-")), []);
}
