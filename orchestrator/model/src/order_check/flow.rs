//! One flow: what it may join, and what it may ask of the way between.

use super::Found;
use crate::{
    document::nearest,
    name::ComponentName,
    order::{End, Flow, Order},
    quantity::{Bandwidth, Bytes, Demand, Latency},
};

pub(super) fn check(found: &mut Found, order: &Order, f: &Flow, at: &str) {
    let known = end(found, order, &f.from, &format!("{at}/from")) & end(found, order, &f.to, &format!("{at}/to"));
    sizes(found, f, at);
    let reason = "a flow that is split has no one path that a backup could stand in for: keep protected or split";
    found.add_if(f.protected && f.split, format!("{at}/split"), reason);
    if !known {
        return;
    }
    let sized = matches!((&f.from, &f.to), (End::Dataset(_), _) | (_, End::Dataset(_)));
    found.add_if(
        f.split && f.rate.is_none() && f.volume.is_none() && !sized,
        format!("{at}/split"),
        "there is no rate to split: add rate, or remove it",
    );
    match (&f.from, &f.to) {
        (End::Component(a), End::Component(b)) => between(found, f, a == b, at),
        (End::Component(c), End::Region(_)) | (End::Region(_), End::Component(c)) => users(found, order, f, c, at),
        (End::Component(_), End::Dataset(_)) | (End::Dataset(_), End::Component(_)) => {
            found.add_if(
                f.demand.is_some(),
                format!("{at}/demand"),
                "demand comes from a region: remove it, or use rate",
            );
            found.add_if(
                f.copy && f.volume.is_none() && f.rate.is_some(),
                format!("{at}/copy"),
                "copy is for a volume, and this flow is a stream: remove copy or add volume",
            );
        }
        _ => found.add(at, format!("{} to {} touches no component: name one at one end", f.from, f.to)),
    }
}

/// Whether the end exists, as far as the order itself can tell.
fn end(found: &mut Found, order: &Order, end: &End, at: &str) -> bool {
    let End::Component(name) = end else { return true };
    if order.component(name).is_some() {
        return true;
    }
    let names: Vec<_> = order.components.iter().map(|c| &c.name).collect();
    let near = nearest(name.as_str(), &names);
    found.add(at, format!("\"{name}\" is no component of this order: {near}; others are dataset/NAME and region/NAME"));
    false
}

fn sizes(found: &mut Found, f: &Flow, at: &str) {
    let zero = [
        (f.volume.is_some_and(Bytes::is_zero), "volume"),
        (f.rate.is_some_and(Bandwidth::is_zero), "rate"),
        (f.demand.is_some_and(Demand::is_zero), "demand"),
        (f.max_latency.is_some_and(Latency::is_zero), "max_latency"),
    ];
    for (wrong, key) in zero {
        found.add_if(wrong, format!("{at}/{key}"), format!("a {key} of 0 is not possible: use more, or remove it"));
    }
}

fn between(found: &mut Found, f: &Flow, itself: bool, at: &str) {
    found.add_if(
        f.volume.is_some(),
        format!("{at}/volume"),
        "components run at the same time, and only a rate joins them: use rate, or go through a dataset",
    );
    found.add_if(f.demand.is_some(), format!("{at}/demand"), "demand comes from a region: remove it, or use rate");
    found.add_if(f.copy, format!("{at}/copy"), "copy is for a volume, and only a rate joins components: remove it");
    if itself {
        let reason = "a flow of a component to itself has a rate: add it";
        found.add_if(f.rate.is_none() && f.volume.is_none(), format!("{at}/rate"), reason);
    } else {
        let silent = f.rate.is_none() && f.max_latency.is_none() && f.volume.is_none() && f.demand.is_none();
        found.add_if(silent, format!("{at}/rate"), "the flow asks for nothing: add rate or max_latency");
    }
}

fn users(found: &mut Found, order: &Order, f: &Flow, name: &ComponentName, at: &str) {
    let outward = matches!(f.to, End::Region(_));
    let service = order.component(name).is_some_and(|c| c.service.is_some());
    let side = if outward { "from" } else { "to" };
    let reason = format!("users reach services only, and \"{name}\" is none: give it service instead of work");
    found.add_if(!service, format!("{at}/{side}"), reason);
    found.add_if(f.volume.is_some(), format!("{at}/volume"), "a region has no volume: use demand or rate");
    found.add_if(f.copy, format!("{at}/copy"), "copy is for a volume: remove it");
    found.add_if(
        outward && f.demand.is_some(),
        format!("{at}/demand"),
        "demand comes from a region: swap from and to, or use rate",
    );
    let silent = f.rate.is_none() && f.max_latency.is_none() && f.volume.is_none() && f.demand.is_none();
    found.add_if(silent, format!("{at}/demand"), "the flow asks for nothing: add demand, rate or max_latency");
}
