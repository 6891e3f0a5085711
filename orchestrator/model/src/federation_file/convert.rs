//! From the file's entries to the nouns, and from shapes back to entries.

use super::{
    DeviceGroupEntry, DeviceKind, FederationFile, MigEntry, NodeEntry, OneOrMany, PartialEntry, PlaceEntry,
    ReleasedSite, SiteEntry, SlicesEntry,
};
use crate::{
    fit::{DeviceGroup, FreeNodes, NodeShape, group_nodes},
    link::Link,
    money::{Amount, UnknownCurrency},
    name::{LinkId, ModelName, NodeName, PointName},
    quantity::{Bytes, Share},
    ratio::Ratio,
    site::{Device, Health, Node, Site},
};
use std::collections::BTreeMap;

type Kinds = BTreeMap<ModelName, DeviceKind>;

impl FederationFile {
    /// Every directed link; one declared both ways gives two, the second's id ending in `~`.
    pub fn directed_links(&self) -> Vec<Link> {
        let mut links = Vec::with_capacity(self.links.len() * 2);
        for entry in &self.links {
            let link = Link {
                id: entry.id.clone(),
                from: entry.from.clone(),
                to: entry.to.clone(),
                capacity: entry.capacity,
                latency: entry.latency,
                jitter: entry.jitter,
                loss: entry.loss,
                per_gb: entry.per_gb,
                per_mbps_hour: entry.per_mbps_hour,
                tariff: entry.tariff.clone(),
                provider: entry.provider.clone(),
                jurisdictions: entry.jurisdictions.clone(),
                encrypted: entry.encrypted,
                srlg: entry.srlg.clone(),
                reverse: None,
            };
            if entry.both_ways
                && let Some(id) = back(&entry.id)
            {
                links.push(Link { id, from: link.to.clone(), to: link.from.clone(), ..link.clone() });
            }
            links.push(link);
        }
        // the halves of a link may also be declared one by one, as an export does
        let ends: BTreeMap<LinkId, (PointName, PointName)> =
            links.iter().map(|l| (l.id.clone(), (l.to.clone(), l.from.clone()))).collect();
        for link in &mut links {
            let other = match link.id.as_str().strip_suffix('~') {
                Some(forth) => LinkId::new(forth).ok(),
                None => back(&link.id),
            };
            let turned = |id: &LinkId| ends.get(id).is_some_and(|(to, from)| (&link.from, &link.to) == (to, from));
            link.reverse = other.filter(turned);
        }
        links
    }

    /// What one unit of another currency is worth, exactly.
    pub fn exact_rates(&self) -> BTreeMap<String, Ratio> {
        self.rates.iter().map(|(currency, rate)| (currency.clone(), rate.ratio())).collect()
    }

    /// An amount in micro-units of the file's currency, exactly.
    pub fn micros(&self, amount: Amount) -> Result<Ratio, UnknownCurrency> {
        amount.micros_in(self.currency, &self.exact_rates())
    }
}

/// The id of the other half.
pub(super) fn back(id: &LinkId) -> Option<LinkId> {
    LinkId::new(&format!("{id}~")).ok()
}

impl SiteEntry {
    pub fn site(&self) -> Site {
        Site {
            name: self.name.clone(),
            tier: self.tier,
            place: self.place,
            jurisdiction: self.jurisdiction.clone(),
            labels: self.labels.clone(),
            prices: self.prices.clone(),
            state: self.state,
        }
    }

    /// The nodes one by one, `n000` first; their devices are numbered in the order of the entries.
    pub fn expand(&self, kinds: &Kinds) -> Vec<Node> {
        let nodes = self.nodes.iter().flat_map(|n| std::iter::repeat_n(n, n.count as usize));
        nodes.enumerate().map(|(i, entry)| entry.node(i, kinds)).collect()
    }

    /// What is free: equal nodes once, in order of shape.
    pub fn free(&self, kinds: &Kinds) -> Vec<FreeNodes> {
        shapes(&self.nodes, kinds)
    }

    /// The same nodes with nothing taken.
    pub fn whole(&self, kinds: &Kinds) -> Vec<FreeNodes> {
        shapes(if self.installed.is_empty() { &self.nodes } else { &self.installed }, kinds)
    }
}

impl ReleasedSite {
    /// Equal nodes once, in order of shape.
    pub fn free(&self, kinds: &Kinds) -> Vec<FreeNodes> {
        shapes(&self.nodes, kinds)
    }
}

fn shapes(nodes: &[NodeEntry], kinds: &Kinds) -> Vec<FreeNodes> {
    group_nodes(nodes.iter().map(|n| (n.shape(kinds), n.count)))
}

/// Where one device is.
#[derive(Clone, Copy)]
struct Spot {
    island: Option<u16>,
    numa: Option<u16>,
    pcie: Option<u16>,
}

/// Numbers that sizes give out, after those that the entries name themselves.
struct Numbers {
    next: [u16; 3],
}

impl Numbers {
    fn after(groups: &[DeviceGroupEntry]) -> Self {
        let places = || groups.iter().filter_map(|g| g.at);
        let next = |number: fn(PlaceEntry) -> Option<u16>| places().filter_map(number).max().map_or(0, |n| n + 1);
        Self { next: [next(|p| p.island), next(|p| p.numa), next(|p| p.pcie)] }
    }

    /// The spot of each of the group's `count` devices.
    fn spots(&mut self, group: &DeviceGroupEntry) -> Vec<Spot> {
        if let Some(at) = group.at {
            return vec![Spot { island: at.island, numa: at.numa, pcie: at.pcie }; group.count as usize];
        }
        let mut numbered = [&group.islands, &group.numa, &group.pcie].into_iter().enumerate().map(|(level, sizes)| {
            let first = self.next[level];
            self.next[level] += sizes.len() as u16;
            let numbers =
                sizes.iter().enumerate().flat_map(|(i, n)| std::iter::repeat_n(Some(first + i as u16), *n as usize));
            numbers.chain(std::iter::repeat(None)).take(group.count as usize).collect::<Vec<_>>()
        });
        let mut next = || numbered.next().unwrap_or_default();
        let (islands, numas, pcies) = (next(), next(), next());
        let zipped = islands.into_iter().zip(numas).zip(pcies);
        zipped.map(|((island, numa), pcie)| Spot { island, numa, pcie }).collect()
    }
}

impl DeviceGroupEntry {
    fn memory_in(&self, kinds: &Kinds) -> Bytes {
        self.memory.or_else(|| kinds.get(&self.model).map(|k| k.memory)).unwrap_or_default()
    }
}

impl NodeEntry {
    /// The devices of one of these nodes, numbered in the order of the entries. Those in slices are the last of their entry.
    pub fn devices(&self, kinds: &Kinds) -> Vec<Device> {
        let mut numbers = Numbers::after(&self.accelerators.0);
        let mut devices = Vec::new();
        for group in &self.accelerators.0 {
            let memory = group.memory_in(kinds);
            let spots = numbers.spots(group);
            let mut migs = group.mig.as_ref().map(|m| m.of_each(memory, group.count)).unwrap_or_default().into_iter();
            for spot in spots {
                devices.push(Device {
                    index: devices.len() as u32,
                    model: group.model.clone(),
                    memory,
                    island: spot.island,
                    numa: spot.numa,
                    pcie: spot.pcie,
                    health: Health::Ok,
                    mig: migs.next(),
                });
            }
        }
        devices
    }

    fn node(&self, index: usize, kinds: &Kinds) -> Node {
        Node {
            name: NodeName::new(&format!("n{index:03}")).expect("n and digits are a node name"),
            devices: self.devices(kinds),
            cpu: self.cpu,
            memory: self.memory,
            rack: self.rack.clone(),
            nvl_domain: self.nvl_domain.clone(),
        }
    }

    /// The shape of one of these nodes.
    pub fn shape(&self, kinds: &Kinds) -> NodeShape {
        let mut numbers = Numbers::after(&self.accelerators.0);
        let mut groups: BTreeMap<_, DeviceGroup> = BTreeMap::new();
        for entry in &self.accelerators.0 {
            let memory = entry.memory_in(kinds);
            let cut = entry.mig == Some(MigEntry::Any);
            let mut add = |spot: Spot, add: &mut dyn FnMut(&mut DeviceGroup)| {
                let key = (entry.model.clone(), memory, spot.island, spot.numa, spot.pcie, cut);
                add(groups.entry(key).or_insert_with(|| DeviceGroup {
                    model: entry.model.clone(),
                    memory,
                    island: spot.island,
                    numa: spot.numa,
                    pcie: spot.pcie,
                    free: 0,
                    total: 0,
                    partial: Vec::new(),
                    cut,
                    slices: Vec::new(),
                }));
            };
            // the last devices are those that are cut: they are the first to have no NVLink
            let mut sliced = entry.mig.as_ref().and_then(|m| m.devices(memory, entry.count)).unwrap_or_default();
            let spots = numbers.spots(entry);
            let whole = spots.len().saturating_sub(sliced.len());
            for spot in spots.iter().take(whole) {
                add(*spot, &mut |g| (g.free, g.total) = (g.free + 1, g.total + 1));
            }
            for (spot, slices) in spots.into_iter().skip(whole).zip(sliced.drain(..)) {
                add(spot, &mut |g| g.add_slices(slices.clone()));
            }
            if entry.busy > 0 || !entry.partial.is_empty() || !entry.slices.is_empty() {
                let at = entry.at.unwrap_or(PlaceEntry { island: None, numa: None, pcie: None });
                add(Spot { island: at.island, numa: at.numa, pcie: at.pcie }, &mut |g| {
                    g.total += entry.busy + entry.partial.len() as u32;
                    let free = |p: &PartialEntry| (p.share.thousandths() as u16, p.memory);
                    g.partial.extend(entry.partial.iter().map(free));
                    entry.slices.iter().for_each(|s| g.add_slices(s.slices()));
                });
            }
        }
        let mut shape = NodeShape::new(groups.into_values().collect(), self.cpu, self.memory);
        shape.rack.clone_from(&self.rack);
        shape.nvl_domain.clone_from(&self.nvl_domain);
        shape
    }

    /// An entry that reads back as the same shape: in the form that people write where that can say it.
    pub fn of_shape(nodes: &FreeNodes, kinds: &Kinds) -> Self {
        let shape = &nodes.shape;
        let with = |accelerators: Vec<DeviceGroupEntry>| Self {
            count: nodes.count,
            accelerators: OneOrMany(accelerators),
            cpu: shape.cpu,
            memory: shape.memory,
            nvl_domain: shape.nvl_domain.clone(),
            rack: shape.rack.clone(),
        };
        if shape.groups.iter().all(|g| g.free == g.total) {
            let plain = with(by_sizes(&shape.groups, kinds));
            if plain.shape(kinds) == *shape {
                return plain;
            }
        }
        with(shape.groups.iter().map(|g| by_place(g, kinds)).collect())
    }
}

fn entry(g: &DeviceGroup, kinds: &Kinds) -> DeviceGroupEntry {
    let usual = kinds.get(&g.model).map(|k| k.memory);
    DeviceGroupEntry {
        model: g.model.clone(),
        count: 0,
        memory: (usual != Some(g.memory)).then_some(g.memory),
        islands: Vec::new(),
        numa: Vec::new(),
        pcie: Vec::new(),
        mig: g.cut.then_some(MigEntry::Any),
        busy: 0,
        partial: Vec::new(),
        slices: Vec::new(),
        at: None,
    }
}

/// One entry for each model, with the sizes of its islands and so on.
fn by_sizes(groups: &[DeviceGroup], kinds: &Kinds) -> Vec<DeviceGroupEntry> {
    let mut ordered: Vec<&DeviceGroup> = groups.iter().collect();
    // sizes speak of the first devices; those without a place come last
    let last = |n: Option<u16>| n.unwrap_or(u16::MAX);
    ordered.sort_by_key(|g| (&g.model, g.memory, g.cut, last(g.island), last(g.numa), last(g.pcie)));
    let mut entries = Vec::new();
    for run in ordered.chunk_by(|a, b| (&a.model, a.memory, a.cut) == (&b.model, b.memory, b.cut)) {
        let sizes = |number: fn(&DeviceGroup) -> Option<u16>| -> Vec<u32> {
            let classes = run.chunk_by(|a, b| number(a) == number(b)).filter(|class| number(class[0]).is_some());
            classes.map(|class| class.iter().map(|g| g.free).sum()).collect()
        };
        entries.push(DeviceGroupEntry {
            count: run.iter().map(|g| g.free).sum(),
            islands: sizes(|g| g.island),
            numa: sizes(|g| g.numa),
            pcie: sizes(|g| g.pcie),
            ..entry(run[0], kinds)
        });
    }
    entries
}

fn by_place(g: &DeviceGroup, kinds: &Kinds) -> DeviceGroupEntry {
    let partial = |(share, memory): &(u16, Bytes)| PartialEntry {
        share: Share::from_thousandths(u64::from(*share)),
        memory: *memory,
    };
    DeviceGroupEntry {
        count: g.free,
        // for readers that know sizes alone
        islands: if g.island.is_some() && g.free > 0 { vec![g.free] } else { Vec::new() },
        busy: g.total - g.free - (g.partial.len() + g.slices.len()) as u32,
        partial: g.partial.iter().map(partial).collect(),
        slices: g.slices.iter().map(|s| SlicesEntry::of(s, g.memory)).collect(),
        at: Some(PlaceEntry { island: g.island, numa: g.numa, pcie: g.pcie }),
        ..entry(g, kinds)
    }
}
