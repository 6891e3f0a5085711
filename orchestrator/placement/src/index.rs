//! The view's sites in flat arrays: what a filter and a bound need of each, without a walk through its documents.

use crate::window::{Meter, Tariff};
use jiff::Timestamp;
use rhumb_federation::{FreeNodes, View, ViewSite};
use rhumb_model::{
    Amount, ModelName,
    price::PriceWindow,
    ratio::{Decimal, Ratio},
    state::SiteState,
};
use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
};

/// Prices here are in micro-units per hour times this, rounded down.
pub(crate) const PRICE_FINE: i128 = 1 << 10;

#[derive(Debug, Clone)]
pub(crate) struct Index {
    /// All models that some site sells, in order of name.
    pub models: Vec<ModelName>,
    /// In the view's order.
    pub sites: Vec<Lot>,
    /// By site, then model.
    stalls: Vec<Stall>,
    tariffs: Vec<RefCell<Tariff>>,
    numbers: BTreeMap<Vec<WindowKey>, u32>,
}

/// A site.
#[derive(Debug, Clone)]
pub(crate) struct Lot {
    pub point: u32,
    pub tariff: u32,
    pub state: SiteState,
    /// Per core and per GiB; `None`: in a currency that is not known.
    pub prices: Option<(i64, i64)>,
    pub free: Most,
    pub whole: Most,
    first: u32,
    end: u32,
    /// See `Index::holds`; worked out when it is first asked for.
    holds: Cell<Option<u128>>,
}

/// The most that any one node has, each on its own.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Most {
    pub cpu_milli: u64,
    pub memory: u64,
}

/// A model for sale at a site.
#[derive(Debug, Clone)]
pub(crate) struct Stall {
    pub model: u16,
    /// Per device.
    pub price: i64,
    /// The most wholly free devices of one node, when others have what they have, and when nothing is taken.
    pub free: u32,
    pub whole: u32,
    /// Some device has a share left.
    pub shared: bool,
}

/// From, to (minutes), zone, factor.
type WindowKey = (u16, u16, String, String);

impl Index {
    pub fn new(view: &View) -> Self {
        let mut models: Vec<ModelName> =
            view.sites.iter().flat_map(|s| s.site.prices.devices.keys()).cloned().collect();
        models.sort_unstable();
        models.dedup();
        let mut index =
            Self { models, sites: Vec::new(), stalls: Vec::new(), tariffs: Vec::new(), numbers: BTreeMap::new() };
        for site in &view.sites {
            let (mut lot, stalls) = index.lot(view, site);
            lot.first = index.stalls.len() as u32;
            index.stalls.extend(stalls);
            lot.end = index.stalls.len() as u32;
            index.sites.push(lot);
        }
        index
    }

    pub fn stalls(&self, site: usize) -> &[Stall] {
        let lot = &self.sites[site];
        &self.stalls[lot.first as usize..lot.end as usize]
    }

    pub fn tariff(&self, site: usize) -> &RefCell<Tariff> {
        &self.tariffs[self.sites[site].tariff as usize]
    }

    /// A digest of what the site has, has free and sells: sites with the same one hold the same.
    pub fn holds(&self, view: &View, site: usize) -> u128 {
        let cell = &self.sites[site].holds;
        cell.get().unwrap_or_else(|| {
            let half = |salt: u8| {
                let at = &view.sites[site];
                let mut hasher = DefaultHasher::new();
                (salt, &at.nodes, &at.whole).hash(&mut hasher);
                at.site.prices.devices.keys().for_each(|model| model.hash(&mut hasher));
                u128::from(hasher.finish())
            };
            let digest = half(0) << 64 | half(1);
            cell.set(Some(digest));
            digest
        })
    }

    /// All different tariffs, as seen from a submission.
    pub fn meters(&self, submit: Timestamp) -> impl Iterator<Item = Meter<'_>> {
        self.tariffs.iter().map(move |tariff| Meter::new(tariff, submit))
    }

    pub fn tariffs(&self) -> usize {
        self.tariffs.len()
    }

    /// The site of the view has changed.
    pub fn changed(&mut self, view: &View, site: usize) {
        let new = &view.sites[site];
        if new.site.prices.devices.keys().any(|m| self.models.binary_search(m).is_err()) {
            *self = Self::new(view);
            return;
        }
        let (mut lot, stalls) = self.lot(view, new);
        let (first, end) = (self.sites[site].first, self.sites[site].end);
        lot.first = first;
        lot.end = first + stalls.len() as u32;
        let moved = i64::from(lot.end) - i64::from(end);
        self.stalls.splice(first as usize..end as usize, stalls);
        self.sites[site] = lot;
        if moved != 0 {
            for later in &mut self.sites[site + 1..] {
                later.first = (i64::from(later.first) + moved) as u32;
                later.end = (i64::from(later.end) + moved) as u32;
            }
        }
    }

    /// What is free at the site of the view has changed, and nothing else.
    pub fn taken(&mut self, view: &View, site: usize) {
        let nodes = &view.sites[site].nodes;
        let lot = &mut self.sites[site];
        lot.free = most(nodes);
        lot.holds.set(None);
        for stall in &mut self.stalls[lot.first as usize..lot.end as usize] {
            (stall.free, stall.shared) = devices(&self.models[usize::from(stall.model)], nodes);
        }
    }

    fn lot(&mut self, view: &View, site: &ViewSite) -> (Lot, Vec<Stall>) {
        let tariff = self.number(&site.site.prices.windows);
        let book = &site.site.prices;
        let fine = |amount: &Amount| amount.micros_in(view.currency, &view.rates).ok().and_then(fine);
        let of = |amount: &Option<Amount>| amount.as_ref().map_or(Some(0), fine);
        let stalls = book.devices.iter().filter_map(|(model, amount)| {
            let (free, shared) = devices(model, &site.nodes);
            let number = self.models.binary_search(model).ok()?;
            Some(Stall {
                model: number as u16,
                price: fine(amount)?,
                free,
                whole: devices(model, &site.whole).0,
                shared,
            })
        });
        let lot = Lot {
            point: site.point.index() as u32,
            tariff,
            state: site.site.state,
            prices: of(&book.cpu).zip(of(&book.memory_gib)),
            free: most(&site.nodes),
            whole: most(&site.whole),
            first: 0,
            end: 0,
            holds: Cell::new(None),
        };
        let stalls = stalls.collect();
        (lot, stalls)
    }

    fn number(&mut self, windows: &[PriceWindow]) -> u32 {
        let decimal = |d: Decimal| d.to_string();
        let key: Vec<WindowKey> =
            windows.iter().map(|w| (w.from.minutes(), w.to.minutes(), w.tz.to_string(), decimal(w.factor))).collect();
        *self.numbers.entry(key).or_insert_with(|| {
            self.tariffs.push(RefCell::new(Tariff::new(windows, Timestamp::UNIX_EPOCH)));
            (self.tariffs.len() - 1) as u32
        })
    }
}

fn fine(micros: Ratio) -> Option<i64> {
    let scaled = num_traits::CheckedMul::checked_mul(&micros, &Ratio::from_integer(PRICE_FINE))?;
    i64::try_from(scaled.floor().to_integer()).ok().filter(|p| *p >= 0)
}

fn most(nodes: &[FreeNodes]) -> Most {
    let mut most = Most::default();
    for node in nodes {
        most.cpu_milli = most.cpu_milli.max(node.shape.cpu.milli());
        most.memory = most.memory.max(node.shape.memory.bytes());
    }
    most
}

/// The most wholly free devices of a model on one node, and whether some device has a share left.
fn devices(model: &ModelName, nodes: &[FreeNodes]) -> (u32, bool) {
    let (mut most, mut shared) = (0, false);
    for node in nodes {
        let mut here = 0_u32;
        for group in node.shape.groups.iter().filter(|g| g.model == *model) {
            here = here.saturating_add(group.free);
            shared |= !group.partial.is_empty();
        }
        most = most.max(here);
    }
    (most, shared || most > 0)
}
