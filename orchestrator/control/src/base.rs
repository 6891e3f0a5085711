//! Static facts of the federation, from its file: points, links, prices, datasets, regions.

use rhumb_model::{
    Amount, Bytes, DocumentError, FederationFile, Latency, Link, LinkId, ModelName, Order, PointName, SiteName,
    money::Currency, order::End, price::PriceBook, ratio::Ratio,
};
use rhumb_provision::Prices;
use std::collections::BTreeMap;

#[derive(Debug, Clone)]
pub struct Base {
    pub file: FederationFile,
    pub links: BTreeMap<LinkId, Link>,
    books: BTreeMap<SiteName, PriceBook>,
    fixed: rhumb_federation::assemble::Base,
}

impl Base {
    pub fn new(file: FederationFile) -> Result<Self, DocumentError> {
        let links = file.directed_links().into_iter().map(|l| (l.id.clone(), l)).collect();
        let books = file.sites.iter().map(|s| (s.name.clone(), s.prices.clone())).collect();
        let fixed = rhumb_federation::assemble::Base::from_file(&file)?;
        Ok(Self { file, links, books, fixed })
    }

    /// The static parts of every view.
    pub fn fixed(&self) -> &rhumb_federation::assemble::Base {
        &self.fixed
    }

    pub fn currency(&self) -> Currency {
        self.file.currency
    }

    /// From and to of a link.
    pub fn ends(&self, link: &LinkId) -> Option<(PointName, PointName)> {
        self.links.get(link).map(|l| (l.from.clone(), l.to.clone()))
    }

    /// One-way delay that the paths of a flow may have: its bound less a region's access.
    pub fn path_bound(&self, order: &Order, flow: u32) -> Option<Latency> {
        let flow = order.flows.get(flow as usize)?;
        let access = |end: &End| match end {
            End::Region(name) => self.file.regions.iter().find(|r| &r.name == name).map_or(0, |r| r.access.micros()),
            End::Component(_) | End::Dataset(_) => 0,
        };
        let access = access(&flow.from).saturating_add(access(&flow.to));
        flow.max_latency.map(|bound| Latency::from_micros(bound.micros().saturating_sub(access)))
    }

    pub fn is_site(&self, point: &PointName) -> bool {
        self.books.contains_key(point)
    }

    /// Points that run an agent.
    pub fn agents(&self) -> impl Iterator<Item = &PointName> {
        let sites = self.file.sites.iter().map(|s| &s.name);
        sites.chain(self.file.transit.iter().filter(|t| t.relay).map(|t| &t.name))
    }

    fn micros(&self, amount: Option<&Amount>) -> Ratio {
        // the file's check refuses a currency without a rate
        amount
            .and_then(|a| a.micros_in(self.fixed.currency, &self.fixed.rates).ok())
            .unwrap_or_else(|| Ratio::from_integer(0))
    }
}

impl Prices for Base {
    fn book(&self, site: &SiteName) -> Option<&PriceBook> {
        self.books.get(site)
    }

    fn device(&self, site: &SiteName, model: &ModelName) -> Ratio {
        self.micros(self.books.get(site).and_then(|b| b.devices.get(model)))
    }

    fn memory(&self, model: &ModelName) -> Option<Bytes> {
        self.file.devices.get(model).map(|kind| kind.memory)
    }

    fn core(&self, site: &SiteName) -> Ratio {
        self.micros(self.books.get(site).and_then(|b| b.cpu.as_ref()))
    }

    fn gib(&self, site: &SiteName) -> Ratio {
        self.micros(self.books.get(site).and_then(|b| b.memory_gib.as_ref()))
    }

    fn per_gb(&self, link: &LinkId) -> Ratio {
        self.fixed.empty_prices(link).map_or_else(|| Ratio::from_integer(0), |(per_gb, _)| per_gb)
    }

    fn per_mbps_hour(&self, link: &LinkId) -> Ratio {
        self.fixed.empty_prices(link).map_or_else(|| Ratio::from_integer(0), |(_, per_hour)| per_hour)
    }
}
