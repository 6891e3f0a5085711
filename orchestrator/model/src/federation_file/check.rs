//! What is wrong with a federation file beyond its types.

use super::{DeviceGroupEntry, FederationFile, LinkEntry, NodeEntry, convert::back};
use crate::{
    calendar::Slots,
    document::{DocumentError, Problem, escape, nearest},
    fit::slice::memory_slices,
    money::{Amount, Currency},
    name::{LinkId, ModelName, PointName},
    price::PriceBook,
    quantity::{Bandwidth, Bytes, Latency},
    ratio::{Decimal, Ratio},
    site::Coordinates,
    tariff::Tariff,
};
use std::collections::{BTreeMap, BTreeSet};

const MAX_SITES: usize = 10_000;
const MAX_LINKS: usize = 1_000_000;
const MAX_NAMED: usize = 100_000;
/// Bookings of one link, and the slots of a year.
const MAX_BOOKED: usize = 10_000;
const MAX_SLOTS: u32 = 366 * 96;
const MAX_NODES: u64 = 1_000_000;
const MAX_DEVICES: u32 = 256;
const MAX_LATENCY: Latency = Latency::from_micros(60_000_000);
/// More than this many help nobody.
const MAX_PROBLEMS: usize = 100;

pub(super) fn check(file: &FederationFile) -> Result<(), DocumentError> {
    let mut c = Check { file, points: BTreeSet::new(), problems: Vec::new() };
    c.currencies();
    c.devices();
    c.points();
    c.links();
    c.datasets_and_regions();
    c.releases();
    c.problems.truncate(MAX_PROBLEMS);
    DocumentError::unless_empty(c.problems)
}

struct Check<'a> {
    file: &'a FederationFile,
    points: BTreeSet<&'a PointName>,
    problems: Vec<Problem>,
}

fn positive(value: Decimal, most: i128) -> bool {
    let value = value.ratio();
    value > Ratio::from_integer(0) && value <= Ratio::from_integer(most)
}

impl<'a> Check<'a> {
    fn add(&mut self, pointer: impl Into<String>, reason: impl Into<String>) {
        self.problems.push(Problem::new(pointer, reason));
    }

    fn add_if(&mut self, wrong: bool, pointer: impl FnOnce() -> String, reason: impl FnOnce() -> String) {
        if wrong {
            self.add(pointer(), reason());
        }
    }

    fn size(&mut self, found: usize, most: usize, pointer: &str) {
        self.add_if(
            found > most,
            || pointer.to_owned(),
            || format!("{found} entries are too many: use at most {most}"),
        );
    }

    fn currencies(&mut self) {
        for (name, rate) in &self.file.rates {
            let at = || format!("/rates/{}", escape(name));
            match name.parse::<Currency>() {
                Err(error) => self.add(at(), error.to_string()),
                Ok(own) if own == self.file.currency => {
                    self.add(at(), "the file's own currency has the rate 1: remove it");
                }
                Ok(_) => {}
            }
            let fits = positive(*rate, 1_000_000) && rate.digits() <= 12;
            self.add_if(!fits, at, || {
                format!("the rate {rate} is out of range: use more than 0, at most 1000000, and 12 digits")
            });
        }
    }

    fn amount(&mut self, amount: Option<Amount>, pointer: impl Fn() -> String) {
        let Some(amount) = amount else { return };
        if let Some(reason) = amount.out_of_range() {
            self.add(pointer(), reason);
        }
        if amount.currency != self.file.currency && !self.file.rates.contains_key(amount.currency.as_str()) {
            let reason = format!("{} has no rate to {}: add it to rates", amount.currency, self.file.currency);
            self.add(pointer(), reason);
        }
    }

    fn devices(&mut self) {
        self.size(self.file.devices.len(), MAX_NAMED, "/devices");
        for (model, kind) in &self.file.devices {
            let at = format!("/devices/{}", escape(model.as_str()));
            let reason = || "a device has more than 0 bytes: write its memory, such as 80GiB".to_owned();
            self.add_if(kind.memory.is_zero(), || format!("{at}/memory"), reason);
            for (precision, rate) in &kind.rates {
                let fits = positive(*rate, 1_000_000) && rate.digits() <= 12;
                let reason =
                    || format!("the rate {rate} is out of range: use more than 0, at most 1000000, and 12 digits");
                self.add_if(!fits, || format!("{at}/{precision}"), reason);
            }
        }
    }

    fn points(&mut self) {
        let file = self.file;
        self.size(file.sites.len(), MAX_SITES, "/sites");
        self.size(file.transit.len(), MAX_SITES, "/transit");
        let mut nodes = 0_u64;
        for (i, site) in file.sites.iter().enumerate() {
            let at = format!("/sites/{i}");
            self.point(&site.name, &at);
            self.place(site.place, &at);
            self.prices(&site.prices, &format!("{at}/prices"));
            for (key, entries) in [("nodes", &site.nodes), ("installed", &site.installed)] {
                for (j, node) in entries.iter().enumerate() {
                    self.node(node, &format!("{at}/{key}/{j}"));
                    nodes = nodes.saturating_add(u64::from(node.count));
                }
            }
        }
        self.add_if(
            nodes > MAX_NODES,
            || "/sites".into(),
            || format!("{nodes} nodes are too many: use at most {MAX_NODES}"),
        );
        for (i, transit) in file.transit.iter().enumerate() {
            let at = format!("/transit/{i}");
            self.point(&transit.name, &at);
            self.place(transit.place, &at);
        }
    }

    fn point(&mut self, name: &'a PointName, at: &str) {
        let new = self.points.insert(name);
        let reason = || format!("\"{name}\" is the name of another site or transit point too: rename one");
        self.add_if(!new, || format!("{at}/name"), reason);
    }

    fn place(&mut self, place: Option<Coordinates>, at: &str) {
        let Some(place) = place else { return };
        for (value, most, key) in [(place.lat, 90, "lat"), (place.lon, 180, "lon")] {
            let value_ratio = value.ratio();
            let fits = value_ratio >= Ratio::from_integer(-most) && value_ratio <= Ratio::from_integer(most);
            let reason = || format!("{value} degrees are out of range: use -{most} to {most}");
            self.add_if(!fits, || format!("{at}/place/{key}"), reason);
        }
    }

    fn prices(&mut self, book: &PriceBook, at: &str) {
        self.amount(book.cpu, || format!("{at}/cpu"));
        self.amount(book.memory_gib, || format!("{at}/memory_gib"));
        for (model, price) in &book.devices {
            self.amount(Some(*price), || format!("{at}/{model}"));
            self.model(model, || format!("{at}/{model}"));
        }
        for (i, window) in book.windows.iter().enumerate() {
            let at = || format!("{at}/windows/{i}");
            let reason = || format!("the window from {} to {} is empty: use another end", window.from, window.to);
            self.add_if(window.from == window.to, || format!("{}/to", at()), reason);
            let factor = window.factor;
            let fits = !factor.is_negative() && factor.ratio() <= Ratio::from_integer(1_000) && factor.digits() <= 9;
            let reason = || format!("the factor {factor} is out of range: use 0 to 1000 and 9 digits");
            self.add_if(!fits, || format!("{}/factor", at()), reason);
        }
    }

    fn model(&mut self, model: &ModelName, pointer: impl FnOnce() -> String) {
        if !self.file.devices.contains_key(model) {
            let known: Vec<&ModelName> = self.file.devices.keys().collect();
            let reason = if known.is_empty() {
                format!("the memory of {model} is not known: add it to devices")
            } else {
                format!(
                    "the memory of {model} is not known: add it to devices, of which {}",
                    nearest(model.as_str(), &known)
                )
            };
            self.add(pointer(), reason);
        }
    }

    fn node(&mut self, node: &NodeEntry, at: &str) {
        self.add_if(node.count == 0, || format!("{at}/count"), || "0 nodes are none: use at least 1".into());
        let groups = &node.accelerators.0;
        let devices = groups.iter().fold(0_u32, |sum, g| {
            sum.saturating_add(g.count).saturating_add(g.busy).saturating_add((g.partial.len() + g.slices.len()) as u32)
        });
        let many = || format!("{devices} devices on one node are too many: use at most {MAX_DEVICES}");
        self.add_if(devices > MAX_DEVICES, || format!("{at}/accelerators"), many);
        for (i, group) in groups.iter().enumerate() {
            let at = if groups.len() == 1 { format!("{at}/accelerators") } else { format!("{at}/accelerators/{i}") };
            self.group(group, &at);
        }
    }

    fn group(&mut self, group: &DeviceGroupEntry, at: &str) {
        self.model(&group.model, || format!("{at}/model"));
        let none = group.count == 0 && group.busy == 0 && group.partial.is_empty() && group.slices.is_empty();
        self.add_if(none, || format!("{at}/count"), || "0 devices are none: use at least 1".into());
        let zero = group.memory.is_some_and(Bytes::is_zero);
        self.add_if(zero, || format!("{at}/memory"), || "a device has more than 0 bytes: use more".into());
        for (sizes, key) in [(&group.islands, "islands"), (&group.numa, "numa"), (&group.pcie, "pcie")] {
            let sum = sizes.iter().fold(0_u32, |sum, n| sum.saturating_add(*n));
            let empty = sizes.contains(&0);
            self.add_if(empty, || format!("{at}/{key}"), || "a size of 0 is none: remove it".into());
            let reason = || format!("sizes of {sum} in all are more than {} devices: make them fit", group.count);
            self.add_if(sum > group.count, || format!("{at}/{key}"), reason);
        }
        for (i, part) in group.partial.iter().enumerate() {
            let wrong = part.share.is_zero() || part.memory.is_zero();
            self.add_if(wrong, || format!("{at}/partial/{i}"), || "nothing is free: count the device as busy".into());
        }
        self.slices(group, at);
        let far = group.at.is_some_and(|p| [p.island, p.numa, p.pcie].into_iter().flatten().any(|n| n > 10_000));
        self.add_if(far, || format!("{at}/at"), || "a place is out of range: use 0 to 10000".into());
    }

    fn slices(&mut self, group: &DeviceGroupEntry, at: &str) {
        let device = group.memory.or_else(|| self.file.devices.get(&group.model).map(|k| k.memory)).unwrap_or_default();
        if let Some(mig) = &group.mig {
            // so many slices stand on no group, and need not be laid out to say so
            let stand = mig.slices() <= 8 * u64::from(group.count) && mig.devices(device, group.count).is_some();
            let reason = || format!("no arrangement of these slices stands on {} of {device}: cut fewer", group.count);
            self.add_if(!stand, || format!("{at}/mig"), reason);
        }
        for (i, slices) in group.slices.iter().enumerate() {
            let at = || format!("{at}/slices/{i}");
            let both = !slices.idle.is_empty() && (!slices.taken.is_empty() || slices.media);
            self.add_if(both, at, || "idle is for devices that are cut, taken for those that may be: keep one".into());
            let far = slices.taken.iter().any(|s| *s >= memory_slices(device));
            self.add_if(far, at, || "there is no such memory slice: use those from 0 that the device has".into());
            let many = slices.idle.values().any(|n| *n > 8);
            self.add_if(many, at, || "so many slices do not stand on one device: name fewer".into());
        }
    }

    fn releases(&mut self) {
        let file = self.file;
        self.size(file.releases.len(), MAX_NAMED, "/releases");
        let sites: BTreeSet<_> = file.sites.iter().map(|s| &s.name).collect();
        let halves = |l: &LinkEntry| [Some(l.id.clone()), back(&l.id).filter(|_| l.both_ways)];
        let links: BTreeSet<LinkId> = file.links.iter().flat_map(halves).flatten().collect();
        for (i, release) in file.releases.iter().enumerate() {
            for (j, site) in release.sites.iter().enumerate() {
                let at = format!("/releases/{i}/sites/{j}");
                let reason = || format!("\"{}\" is no site of this file: name one of its sites", site.name);
                self.add_if(!sites.contains(&site.name), || format!("{at}/name"), reason);
                for (k, node) in site.nodes.iter().enumerate() {
                    self.node(node, &format!("{at}/nodes/{k}"));
                }
            }
            for (j, link) in release.links.iter().enumerate() {
                let reason = || format!("\"{}\" is no link of this file: name one of its links", link.id);
                self.add_if(!links.contains(&link.id), || format!("/releases/{i}/links/{j}/id"), reason);
            }
        }
    }

    fn links(&mut self) {
        let file = self.file;
        self.size(file.links.len(), MAX_LINKS, "/links");
        let mut ids: BTreeMap<LinkId, usize> = BTreeMap::new();
        for (i, link) in file.links.iter().enumerate() {
            let at = || format!("/links/{i}");
            let both = if link.both_ways { back(&link.id) } else { None };
            let reason = || "the id leaves no room for a ~ at its end: use at most 62 characters".to_owned();
            self.add_if(link.both_ways && both.is_none(), || format!("{}/id", at()), reason);
            for id in [Some(link.id.clone()), both].into_iter().flatten() {
                if let Some(j) = ids.insert(id.clone(), i) {
                    self.add(format!("{}/id", at()), format!("\"{id}\" is the id of link {j} too: rename one"));
                }
            }
            self.ends(link, i);
            self.figures(link, i);
        }
    }

    fn ends(&mut self, link: &LinkEntry, i: usize) {
        self.known(&link.from, || format!("/links/{i}/from"));
        self.known(&link.to, || format!("/links/{i}/to"));
        let reason = || format!("the link joins \"{}\" to itself: name another end", link.to);
        self.add_if(link.from == link.to, || format!("/links/{i}/to"), reason);
    }

    fn figures(&mut self, link: &LinkEntry, i: usize) {
        let at = |key: &str| format!("/links/{i}/{key}");
        let nothing = link.capacity.is_zero() && link.installed.unwrap_or(Bandwidth::ZERO).is_zero();
        self.add_if(
            nothing,
            || at("capacity"),
            || "a capacity of 0 carries nothing: use more, or remove the link".into(),
        );
        let less = link.installed.is_some_and(|all| all < link.capacity);
        self.add_if(less, || at("installed"), || "less is installed than is free: use more".into());
        for (value, key) in [(link.latency, "latency"), (link.jitter, "jitter")] {
            self.add_if(value > MAX_LATENCY, || at(key), || format!("{value} is out of range: use at most 60s"));
        }
        self.booked(link, &at("booked"));
        self.amount(link.per_gb, || at("per_gb"));
        self.amount(link.per_mbps_hour, || at("per_mbps_hour"));
        for amount in link.tariff.iter().flat_map(Tariff::amounts) {
            self.amount(Some(amount), || at("tariff"));
        }
        if let Some((key, why)) = link.tariff.as_ref().and_then(Tariff::fault) {
            self.add_if(true, || at(&format!("tariff/{key}")), || why);
        }
    }

    fn booked(&mut self, link: &LinkEntry, at: &str) {
        self.size(link.booked.len(), MAX_BOOKED, at);
        let mut wrong = link.booked.len() > MAX_BOOKED;
        for (i, b) in link.booked.iter().enumerate() {
            let at = || format!("{at}/{i}/until");
            let before = b.until <= b.from;
            self.add_if(before, at, || format!("{} is not after {}: use a later instant", b.until, b.from));
            let long = !before && Slots::touched(b.from, b.until).len() > MAX_SLOTS;
            self.add_if(long, at, || "a booking is at most a year long: end it earlier, or lower the capacity".into());
            wrong |= before || long;
        }
        if wrong {
            return;
        }
        let highest = link.calendar().highest();
        let reason = || format!("up to {highest} are booked at once of a capacity of {}: book less", link.capacity);
        self.add_if(highest > link.capacity, || at.to_owned(), reason);
    }

    fn known(&mut self, point: &PointName, pointer: impl FnOnce() -> String) {
        if !self.points.contains(point) {
            let known: Vec<&PointName> = self.points.iter().copied().collect();
            let near = nearest(point.as_str(), &known);
            self.add(pointer(), format!("\"{point}\" is neither a site nor a transit point of this file: {near}"));
        }
    }

    fn datasets_and_regions(&mut self) {
        let file = self.file;
        self.size(file.datasets.len(), MAX_NAMED, "/datasets");
        self.size(file.regions.len(), MAX_NAMED, "/regions");
        let sites: BTreeSet<&PointName> = file.sites.iter().map(|s| &s.name).collect();
        let mut names = BTreeSet::new();
        for (i, dataset) in file.datasets.iter().enumerate() {
            let at = |key: &str| format!("/datasets/{i}/{key}");
            let new = names.insert(dataset.name.as_str());
            self.add_if(!new, || at("name"), || format!("\"{}\" is named twice: rename one", dataset.name));
            self.add_if(dataset.size.is_zero(), || at("size"), || "a dataset of 0 bytes is none: use more".into());
            for (j, site) in dataset.at.iter().enumerate() {
                if !sites.contains(site) {
                    let known: Vec<_> = sites.iter().copied().collect();
                    let near = nearest(site.as_str(), &known);
                    self.add(at(&format!("at/{j}")), format!("\"{site}\" is no site of this file: {near}"));
                }
            }
        }
        let mut names = BTreeSet::new();
        for (i, region) in file.regions.iter().enumerate() {
            let at = |key: &str| format!("/regions/{i}/{key}");
            let new = names.insert(region.name.as_str());
            self.add_if(!new, || at("name"), || format!("\"{}\" is named twice: rename one", region.name));
            self.known(&region.at, || at("at"));
            let far = region.access > MAX_LATENCY;
            self.add_if(far, || at("access"), || format!("{} is out of range: use at most 60s", region.access));
        }
    }
}
