//! Make before break, and what two ends that change one after the other do to packets on their way.

use crate::{
    traffic::ping,
    world::{Leg, Way, apply_all, clean, kernel, lab, owner},
};
use rhumb_kernel::{Kernel, Stance};
use rhumb_lab::{Router, Site};
use std::time::Duration;

#[test]
fn an_order_moves_from_a_path_of_20_ms_to_one_of_6_and_loses_nothing() {
    let Some(lab) = lab() else { return };
    let old = Leg::new(1_001, Way::Plane(Router::R1), 50);
    let own = owner(u128::from(old.vni), 1, 1);
    let new = Leg { owner: own, stance: Stance::Idle, ..Leg::new(1_002, Way::Plane(Router::R2), 50) };
    apply_all(&lab, std::slice::from_ref(&old));
    let a = lab.host(Site::A);
    // 600 in at least three seconds, while the way is built, checked, taken and the old one removed
    let running = ping(&a, Site::B.host(0), 600, "0.005");
    std::thread::sleep(Duration::from_millis(700));
    apply_all(&lab, &[old.clone(), new.clone()]);
    // the new path is checked by itself before anybody takes it
    let check = ping(&lab.site(Site::A), new.inner().1, 5, "0.05").end();
    assert_eq!(check.received, 5);
    assert!((12.0..15.0).contains(&check.least_ms), "{check:?}");
    apply_all(&lab, &[old, Leg { stance: Stance::Carrying, ..new.clone() }]);
    // what is on its way over the old path arrives before that goes
    std::thread::sleep(Duration::from_millis(60));
    apply_all(&lab, &[Leg { stance: Stance::Carrying, ..new }]);
    let echoes = running.end();
    assert_eq!((echoes.sent, echoes.received), (600, 600));
    let slow = echoes.answered.iter().filter(|(_, ms, _)| *ms >= 40.0).count();
    let quick = echoes.answered.iter().filter(|(_, ms, _)| *ms < 25.0).count();
    assert!(slow > 50 && quick > 100, "{slow} over the old path, {quick} over the new one");
    assert_eq!(echoes.answered.last().unwrap().0, 600);
}

#[test]
fn five_hundred_moves_cancelled_on_their_way_leave_nothing() {
    let Some(lab) = lab() else { return };
    let left = kernel(&lab.site(Site::A), async |kernel: &mut Kernel| {
        let mut left = Vec::new();
        // fifty orders at once, ten times over
        for round in 0_u32..10 {
            let old: Vec<Leg> = (0..50).map(|order| Leg::new(1 + 2 * order, Way::Plane(Router::R1), 10)).collect();
            let new: Vec<Leg> = old.iter().map(moved).collect();
            let at = |legs: &[Leg]| legs.iter().map(|leg| leg.at(Site::A)).collect::<Vec<_>>();
            let (before, both) = (at(&old), at(&[old.clone(), new.clone()].concat()));
            clean(&kernel.apply(&before).await?);
            let (_, operations) = kernel.plan(&both).await?;
            for operation in operations.iter().take(operations.len() * round as usize / 9) {
                kernel.perform(std::slice::from_ref(operation)).await?;
            }
            clean(&kernel.apply(&[]).await?);
            kernel.look_again();
            left.push(kernel.observe().await?.len());
        }
        Ok(left)
    });
    assert_eq!(left, [0; 10]);
}

fn moved(old: &Leg) -> Leg {
    Leg { owner: owner(u128::from(old.vni), 1, 1), ..Leg::new(old.vni + 1, Way::Plane(Router::R2), 10) }
}
