//! Flows on several paths: parts that sum to the whole, and backups that share nothing with the path.

use super::Found;
use rhumb_federation::View;
use rhumb_model::{Leg, LinkId, order::Flow};

/// Legs that belong together: of a flow that is split, those between the same ends.
pub(super) fn groups<'p>(flow: &Flow, legs: &[&'p Leg]) -> Vec<Vec<&'p Leg>> {
    let mut groups: Vec<Vec<&Leg>> = Vec::new();
    for leg in legs {
        let same = |g: &&mut Vec<&Leg>| (&g[0].from_site, &g[0].to_site) == (&leg.from_site, &leg.to_site);
        match groups.iter_mut().find(same).filter(|_| flow.split) {
            Some(group) => group.push(leg),
            None => groups.push(vec![leg]),
        }
    }
    groups
}

/// Each part carries something, on a path that no other part has.
pub(super) fn check(found: &mut Found, view: &View, group: &[&Leg], ends: &str) {
    for (i, leg) in group.iter().enumerate() {
        let known = leg.path.iter().all(|id| view.links.contains_key(id));
        found.check(known, "path", || format!("{ends}: unknown link"));
        let empty = group.len() > 1 && (leg.rate_kbps == 0 || leg.path.is_empty());
        found.check(!empty, "split", || format!("{ends}: a part that carries nothing"));
        let twice = group[..i].iter().any(|other| other.path == leg.path);
        found.check(!twice, "split", || format!("{ends}: the same path twice"));
    }
}

/// The backup is there, and neither a link, nor the other half of one, nor a risk group is on both paths.
pub(super) fn apart(found: &mut Found, view: &View, leg: &Leg, ends: &str) {
    found.check(!leg.backup.is_empty(), "backup", || format!("{ends}: none"));
    let halves = |a: &LinkId, b: &LinkId| {
        let stem = |id: &LinkId| id.as_str().strip_suffix('~').unwrap_or(id.as_str()).to_owned();
        let turned = view.ends(a).map(|(from, to)| (to, from)) == view.ends(b);
        stem(a) == stem(b) && turned
    };
    for a in &leg.path {
        for b in &leg.backup {
            found.check(a != b && !halves(a, b), "backup", || format!("{ends}: {a} and {b} are one link"));
            let risks = |id: &LinkId| view.link(id).map(|l| l.srlg.clone()).unwrap_or_default();
            let shared = risks(a).intersection(&risks(b)).next().cloned();
            found.check(shared.is_none(), "backup", || format!("{ends}: {a} and {b} share the risk {shared:?}"));
        }
    }
}
