//! What is somebody else's is never read as the driver's own, changed or removed; what somebody did to the driver's own is
//! made good.

use crate::world::{Leg, Way, apply, at, clean, everything, kernel, lab, same};
use rhumb_kernel::Kernel;
use rhumb_lab::{Lab, Router, Site};

/// Objects that look as much like the driver's as others' may.
fn clutter(lab: &Lab) {
    let site = lab.site(Site::A);
    for words in [
        "link add vx9 type vxlan id 9001 dstport 4790 local 10.100.21.1 remote 10.100.22.1",
        "link add rh9002 type vxlan id 9002 dstport 4790 local 10.100.21.1 remote 10.100.22.1",
        "link set vx9 alias rhumb:order:1:0:0",
        "link set vx9 up",
        "addr add 192.168.77.1/24 dev vx9",
        "route add 192.168.78.0/24 via 192.168.77.2 table 1000000005 proto 199",
        "route add 192.168.79.0/24 via 192.168.77.2 proto 200",
        "rule add from 10.11.0.0/24 to 192.168.78.0/24 lookup 1000000005 priority 10005 protocol 199",
        "rule add to 192.168.79.0/24 lookup 77 priority 10006 protocol 200",
        "-6 route add fd00:77::/64 encap seg6 mode encap segs fd00:e:1::e dev up1 proto 199",
    ] {
        site.ip(words).unwrap_or_else(|error| panic!("{error}"));
    }
    for words in ["add table inet other", "add chain inet other forward { type filter hook forward priority 5; }"] {
        assert!(site.command("nft").arg(words).status().unwrap().success(), "{words}");
    }
    for words in
        ["qdisc add dev vx9 root handle 1: htb default 10", "class add dev vx9 parent 1: classid 1:10 htb rate 1mbit"]
    {
        assert!(site.command("tc").args(words.split(' ')).status().unwrap().success(), "{words}");
    }
}

#[test]
fn what_is_somebody_elses_stays_as_it_was() {
    let Some(lab) = lab() else { return };
    clutter(&lab);
    let before = everything(&lab.site(Site::A));
    let legs: Vec<Leg> = (1..=8).map(|vni| Leg::new(vni, Way::Plane(Router::R2), 5)).collect();
    assert!(apply(&lab, Site::A, &legs) > 40);
    let during = everything(&lab.site(Site::A));
    for line in before.lines() {
        assert!(during.contains(line), "{line} is gone or changed");
    }
    kernel(&lab.site(Site::A), async |kernel: &mut Kernel| Ok(clean(&kernel.clear().await?)));
    same(&everything(&lab.site(Site::A)), &before);
}

#[test]
fn a_number_or_name_that_somebody_else_uses_is_told_and_left_alone() {
    let Some(lab) = lab() else { return };
    let site = lab.site(Site::A);
    site.ip("link add theirs type vxlan id 5 dstport 4789 local 10.100.21.1 remote 10.100.22.1").unwrap();
    site.ip("link add rh6 type vxlan id 66 dstport 4790 local 10.100.21.1 remote 10.100.22.1").unwrap();
    let before = everything(&site);
    let legs: Vec<Leg> = (5..=7).map(|vni| Leg::new(vni, Way::Plane(Router::R2), 5)).collect();
    let (applied, after) = kernel(&site, async |kernel: &mut Kernel| {
        let applied = kernel.apply(&at(Site::A, &legs)).await?;
        Ok((applied, kernel.clear().await?))
    });
    clean(&after);
    assert_eq!(applied.failed.len(), 2, "{applied:?}");
    let why = &applied.failed[&legs[0].owner];
    assert!(why.contains("cannot make the tunnel rh5 from 10.100.21.1 to 10.100.22.1: File exists"), "{why}");
    same(&everything(&site), &before);
}

#[test]
fn what_somebody_took_away_by_hand_is_put_back() {
    let Some(lab) = lab() else { return };
    let site = lab.site(Site::A);
    let leg = Leg::new(3, Way::Plane(Router::R2), 5);
    apply(&lab, Site::A, std::slice::from_ref(&leg));
    let whole = everything(&site);
    let hands: [&[&str]; 7] = [
        &["ip", "route", "del", "10.12.0.0/24", "table", "1000000003"],
        &["ip", "rule", "del", "priority", "10003"],
        &["ip", "link", "set", "rh3", "down", "mtu", "1400"],
        &["ip", "addr", "del", "10.200.0.4/31", "dev", "rh3"],
        &["tc", "qdisc", "del", "dev", "rh3", "root"],
        &["tc", "class", "change", "dev", "rh3", "parent", "1:", "classid", "1:10", "htb", "rate", "900mbit"],
        &["nft", "delete", "table", "inet", "rhumb"],
    ];
    for hand in hands {
        assert!(site.command(hand[0]).args(&hand[1..]).status().unwrap().success(), "{hand:?}");
        assert!(everything(&site) != whole, "{hand:?}");
        assert!(apply(&lab, Site::A, std::slice::from_ref(&leg)) > 0, "{hand:?}");
        same(&shape(&everything(&site)), &shape(&whole));
    }
    // gone before it is removed: that counts as done
    site.ip("link del rh3").unwrap();
    site.ip("rule del priority 10003").unwrap();
    apply(&lab, Site::A, &[]);
    assert!(!everything(&site).contains("rh3"));
}

#[test]
fn several_stale_routes_go_in_one_round() {
    let Some(lab) = lab() else { return };
    let legs: Vec<Leg> = (1..=3).map(|vni| Leg::new(vni, Way::Plane(Router::R2), 5)).collect();
    let before = everything(&lab.site(Site::A));
    apply(&lab, Site::A, &legs);
    apply(&lab, Site::A, &[]);
    same(&everything(&lab.site(Site::A)), &before);
}

/// Without what a new object has of its own: index and hardware address, and the order that comes of them.
fn shape(everything: &str) -> String {
    let word = |word: &&str| !word.contains(':') || word.contains("::");
    let mut lines: Vec<String> =
        everything.lines().map(|line| line.split_whitespace().filter(word).collect::<Vec<_>>().join(" ")).collect();
    lines.sort();
    lines.join("\n")
}
