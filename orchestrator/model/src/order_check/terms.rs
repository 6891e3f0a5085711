//! Constraints and terms.

use super::Found;
use crate::{
    order::{Constraints, Failover, Terms},
    quantity::Span,
};

const MAX_NAMES: usize = 10_000;
const SIGNALS: [&str; 6] = ["SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2"];
const SECOND_US: u64 = 1_000_000;

pub(super) fn check_constraints(found: &mut Found, c: &Constraints) {
    found.add_if(c.max_sites == Some(0), "/constraints/max_sites", "0 sites hold nothing: use at least 1");
    for name in c.sites.intersection(&c.not_sites) {
        found.add("/constraints/not_sites", format!("\"{name}\" stands in sites too: remove it from one"));
    }
    let sizes = [
        (c.sites.len(), "sites"),
        (c.not_sites.len(), "not_sites"),
        (c.labels.len(), "labels"),
        (c.jurisdictions.len(), "jurisdictions"),
    ];
    for (n, key) in sizes {
        let reason = format!("{n} entries are too many: use at most {MAX_NAMES}");
        found.add_if(n > MAX_NAMES, format!("/constraints/{key}"), reason);
    }
}

pub(super) fn check(found: &mut Found, t: &Terms) {
    let amounts = [
        (t.budget, "budget"),
        (t.value_per_hour, "value_per_hour"),
        (t.late_per_hour, "late_per_hour"),
        (t.value, "value"),
    ];
    for (amount, key) in amounts {
        found.amount(amount, &format!("/terms/{key}"));
    }
    let reason = "there is no deadline to be late for: add deadline, or remove it";
    found.add_if(t.late_per_hour.is_some() && t.deadline.is_none(), "/terms/late_per_hour", reason);
    if let Some(p) = t.priority {
        found.add_if(p > 100, "/terms/priority", format!("{p} is out of range: use 0 to 100"));
    }
    if let Some(w) = &t.window {
        let reason = format!("the window from {} to {} is empty: use another end", w.from, w.to);
        found.add_if(w.from == w.to, "/terms/window/to", reason);
    }
    found.add_if(
        t.horizon.is_some_and(Span::is_zero),
        "/terms/horizon",
        "a horizon of 0 is nothing: use more, such as 24h",
    );
    if let Failover::Lease(lease) = t.failover {
        let fits = (5 * SECOND_US..=3_600 * SECOND_US).contains(&lease.micros());
        found.add_if(!fits, "/terms/failover/lease", format!("a lease of {lease} is out of range: use 5s to 1h"));
    }
    if let Some(c) = &t.checkpoint {
        let known = SIGNALS.contains(&c.signal.as_str());
        found.add_if(
            !known,
            "/terms/checkpoint/signal",
            format!("the signal is unknown: use one of {}", SIGNALS.join(", ")),
        );
        let fits = (SECOND_US..=3_600 * SECOND_US).contains(&c.grace.micros());
        found.add_if(!fits, "/terms/checkpoint/grace", format!("a grace of {} is out of range: use 1s to 1h", c.grace));
    }
}
