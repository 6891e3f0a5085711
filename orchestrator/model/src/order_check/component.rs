//! One component: how many replicas, what each needs, what it does.

use super::Found;
use crate::{
    document::{escape, nearest},
    order::{Accelerators, Component, Interconnect, Order, Run, Service, Spread, Work},
    quantity::{Bytes, Share, Span},
    ratio::Ratio,
};

pub(super) const MAX_REPLICAS: u32 = 10_000;
const MAX_DEVICES: u32 = 64;
const MAX_ARGUMENTS: usize = 256;
const MAX_VARIABLES: usize = 256;
const MAX_VARIANTS: usize = 16;
/// Command and environment of one replica together, as an operating system takes them.
const MAX_RUN_BYTES: usize = 128 << 10;
/// Ten years.
const MAX_HOURS: i128 = 87_600;

pub(super) fn check(found: &mut Found, order: &Order, c: &Component, at: &str) {
    let r = c.replicas;
    if r.min == 0 {
        found.add(format!("{at}/replicas"), format!("0 replicas do nothing: use 1 to {MAX_REPLICAS}"));
    } else if r.max > MAX_REPLICAS {
        let reason = format!("{} replicas are too many: use 1 to {MAX_REPLICAS}", r.max);
        found.add(format!("{at}/replicas"), reason);
    } else if r.max < r.min {
        let reason = format!("max {} is less than min {}: swap them", r.max, r.min);
        found.add(format!("{at}/replicas"), reason);
    }
    match &c.need.accelerators {
        Some(a) => accelerators(found, a, &format!("{at}/need/accelerators")),
        None if c.need.cpu.milli() == 0 && c.need.memory.is_zero() => {
            found.add(format!("{at}/need"), "a replica needs something: add cpu, memory or accelerators");
        }
        None => {}
    }
    match (&c.work, &c.service) {
        (None, None) => found.add(format!("{at}/work"), "neither work nor service is given: add one"),
        (Some(_), Some(_)) => found.add(format!("{at}/service"), "both work and service are given: keep one"),
        (Some(w), None) => work(found, w, c.need.accelerators.is_some(), &format!("{at}/work")),
        (None, Some(s)) => service(found, s, &format!("{at}/service")),
    }
    if let Some(r) = &c.run {
        run(found, r, &format!("{at}/run"));
    }
    place(found, order, c, at);
}

fn accelerators(found: &mut Found, a: &Accelerators, at: &str) {
    match (a.count, &a.mig, a.share) {
        (None, None, None) => found.add(format!("{at}/count"), "add count, or mig, or share"),
        (_, Some(_), Some(_)) => found.add(format!("{at}/mig"), "both mig and share are given: keep one"),
        (Some(_), None, Some(_)) => found.add(format!("{at}/count"), "both count and share are given: keep one"),
        _ => {}
    }
    if let Some(n) = a.count
        && !(1..=MAX_DEVICES).contains(&n)
    {
        let reason = format!("{n} devices in one replica are out of range: use 1 to {MAX_DEVICES}");
        found.add(format!("{at}/count"), reason);
    }
    if let (Some(profile), Some(memory)) = (a.mig, a.memory) {
        let reason = format!("a slice {profile} has {}: use at most that, or remove it", profile.memory());
        found.add_if(memory > profile.memory(), format!("{at}/memory"), reason);
    }
    found.add_if(
        a.share.is_some_and(Share::is_zero),
        format!("{at}/share"),
        "a share of 0 is nothing: use 0.1% to 100%",
    );
    found.add_if(
        a.memory.is_some_and(Bytes::is_zero),
        format!("{at}/memory"),
        "0 bytes of device memory are nothing: use more, or remove it",
    );
    found.add_if(a.models.len() > 32, format!("{at}/models"), "more than 32 models: name fewer, or none for any");
    let within_replica = matches!(a.interconnect, Interconnect::Nvlink | Interconnect::Pcie | Interconnect::Numa);
    found.add_if(
        within_replica && (a.share.is_some() || a.mig.is_some()),
        format!("{at}/interconnect"),
        format!("a part of one device has no {} to others: remove it", a.interconnect),
    );
}

fn work(found: &mut Found, w: &Work, accelerated: bool, at: &str) {
    match (w.hours, &w.reference, w.duration) {
        (Some(_), _, Some(_)) | (_, Some(_), Some(_)) => {
            found.add(
                format!("{at}/duration"),
                "both hours and duration are given: keep hours with reference, or duration",
            );
        }
        (None, _, None) => found.add(format!("{at}/hours"), "add hours with reference, or duration"),
        (Some(_), None, None) if accelerated => {
            found.add(format!("{at}/reference"), "hours are those of a device model: add reference, such as H100");
        }
        _ => {}
    }
    if let Some(hours) = w.hours {
        let value = hours.ratio();
        let fits = value > Ratio::from_integer(0) && value <= Ratio::from_integer(MAX_HOURS) && hours.digits() <= 12;
        let reason = format!("{hours} hours are out of range: use more than 0, at most {MAX_HOURS}, and 12 digits");
        found.add_if(!fits, format!("{at}/hours"), reason);
    }
    found.add_if(
        w.duration.is_some_and(Span::is_zero),
        format!("{at}/duration"),
        "a duration of 0 is nothing: use more",
    );
}

fn service(found: &mut Found, s: &Service, at: &str) {
    found.add_if(s.serves.is_zero(), format!("{at}/serves"), "a replica serves more than 0: use a rate such as 10rps");
    found.add_if(s.port == 0, format!("{at}/port"), "0 is no port: use 1 to 65535");
}

fn run(found: &mut Found, r: &Run, at: &str) {
    command(found, &r.command, &format!("{at}/command"));
    image(found, r.image.as_deref(), &format!("{at}/image"));
    found.add_if(r.env.len() > MAX_VARIABLES, format!("{at}/env"), format!("too many variables: use {MAX_VARIABLES}"));
    for (name, value) in &r.env {
        let bytes = name.as_bytes();
        let good = (1..=128).contains(&bytes.len())
            && !bytes[0].is_ascii_digit()
            && bytes.iter().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || *c == b'_');
        let place = || format!("{at}/env/{}", escape(name));
        found.add_if(
            !good,
            place(),
            "the variable's name is not valid: use A-Z, 0-9 and _, not beginning with a digit",
        );
        found.add_if(value.contains('\0'), place(), "the value holds a NUL: remove it");
    }
    found.add_if(r.variants.len() > MAX_VARIANTS, format!("{at}/variants"), format!("too many: use {MAX_VARIANTS}"));
    for (name, variant) in &r.variants {
        let at = format!("{at}/variants/{}", escape(name));
        let plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
        let good = (1..=32).contains(&name.len()) && name.bytes().all(plain);
        found.add_if(!good, &at, "the family's name is not valid: use 1 to 32 of a-z, 0-9 and -");
        command(found, &variant.command, &format!("{at}/command"));
        image(found, variant.image.as_deref(), &format!("{at}/image"));
    }
    let size = |words: &[String]| words.iter().map(|w| w.len() + 1).sum::<usize>();
    let environment: usize = r.env.iter().map(|(k, v)| k.len() + v.len() + 2).sum();
    let longest = r.variants.values().map(|v| size(&v.command)).max().unwrap_or(0).max(size(&r.command));
    let total = environment + longest;
    let reason = format!("command and environment take {total} bytes: use at most {MAX_RUN_BYTES}");
    found.add_if(total > MAX_RUN_BYTES, at, reason);
}

fn command(found: &mut Found, words: &[String], at: &str) {
    if words.len() > MAX_ARGUMENTS {
        found.add(at, format!("{} arguments are too many: use at most {MAX_ARGUMENTS}", words.len()));
    }
    found.add_if(
        words.first().is_some_and(String::is_empty),
        format!("{at}/0"),
        "the program's name is empty: name one",
    );
    if let Some(i) = words.iter().position(|w| w.contains('\0')) {
        found.add(format!("{at}/{i}"), "the argument holds a NUL: remove it");
    }
}

fn image(found: &mut Found, image: Option<&str>, at: &str) {
    let Some(image) = image else { return };
    let good = (1..=512).contains(&image.len()) && image.bytes().all(|c| c.is_ascii_graphic());
    found.add_if(!good, at, "the image is not valid: write one such as registry.example/train:1");
}

fn place(found: &mut Found, order: &Order, c: &Component, at: &str) {
    for name in &c.place.colocate {
        let at = format!("{at}/place/colocate");
        if *name == c.name {
            found.add(at, format!("\"{name}\" stands with itself in any case: remove it"));
        } else if order.component(name).is_none() {
            let names: Vec<_> = order.components.iter().map(|c| &c.name).collect();
            found.add(at, format!("\"{name}\" is no component of this order: {}", nearest(name.as_str(), &names)));
        }
    }
    let (Some(spread), Some(a)) = (c.place.spread, &c.need.accelerators) else { return };
    let together = match a.interconnect {
        Interconnect::NvlDomain | Interconnect::Rack => spread != Spread::Node,
        Interconnect::Site => spread == Spread::Site,
        _ => false,
    };
    let reason = format!("replicas of one {} cannot be spread by {spread}: remove one of the two", a.interconnect);
    found.add_if(together && c.replicas.min > 1, format!("{at}/place/spread"), reason);
}
