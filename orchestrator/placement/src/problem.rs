//! The order and the view by dense ordinal: what one search works on.

use crate::{
    bound::Bounds,
    network::{Direction, Mask, Network, Price},
    path::{Ask, Tree},
    policy::{Policy, Request},
    stand::{self, Stand},
    streams,
    window::Tariff,
};
use num_traits::CheckedDiv;
use rhumb_federation::View;
use rhumb_model::{
    Reason, ReasonKind,
    money::Amount,
    order::{Component, End, Interconnect, Spread},
    ratio::Ratio,
};
use std::{
    cell::{OnceCell, RefCell},
    collections::{BTreeMap, HashMap},
    rc::Rc,
};

/// Nanoseconds in an hour: all times are exact nanoseconds since submission.
pub(crate) const HOUR: i128 = 3_600_000_000_000;

/// Constraints that a search may leave aside, to find the one that stands in the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
#[allow(clippy::struct_excessive_bools)] // each names one constraint, and any set of them may be relaxed
pub(crate) struct Relax {
    /// What others have taken: nodes and links count as empty.
    pub capacity: bool,
    /// All flows.
    pub flows: bool,
    pub budget: bool,
    pub window: bool,
    pub path_jurisdiction: bool,
    pub latency: bool,
    pub bandwidth: bool,
    pub encryption: bool,
    pub stale: bool,
    pub draining: bool,
    pub deadline: bool,
}

/// A component of the order.
#[derive(Debug, Clone)]
pub(crate) struct Part<'a> {
    pub component: &'a Component,
    /// Fewest and most replicas worth trying.
    pub fewest: u32,
    pub most: u32,
    /// Where it can stand, by site and model.
    pub stands: Vec<Stand<'a>>,
    /// Thousandths of requests per second: asked of it by all regions, and served by one replica.
    pub demand: u64,
    pub serves: u64,
    pub one_site: bool,
    pub spread_site: bool,
}

/// One end of a flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// Index of the component.
    Part(usize),
    /// Copies of a dataset, or the point of a region.
    Points(Rc<[u32]>),
}

/// When a leg holds its links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Span {
    Inbound,
    Run,
    Outbound,
}

#[derive(Debug)]
pub(crate) struct Stream {
    /// Index in the order.
    pub flow: usize,
    pub from: Place,
    pub to: Place,
    pub span: Span,
    /// Bytes; 0 for a `Run`.
    pub volume: u64,
    pub kbps: Option<u64>,
    /// Thousandths of requests per second.
    pub demand: Option<u64>,
    /// What is left of `max_latency` after the region's access, in microseconds. `None`: any.
    pub bound: Option<u64>,
    /// Delay of the region's access, in microseconds.
    pub access: u64,
    pub copy: bool,
    pub encrypted: bool,
    /// The region's access alone is beyond the bound.
    pub hopeless: bool,
}

impl Stream {
    pub fn price(&self) -> Price {
        match (self.span, self.kbps) {
            (Span::Run, None) => Price::Free,
            (Span::Run, Some(_)) => Price::Rate,
            _ => Price::Volume,
        }
    }
}

/// A tariff, by its address, and a length in nanoseconds.
type Stretch = (*const RefCell<Tariff>, Ratio);

pub(crate) struct Problem<'a> {
    pub view: &'a View,
    pub net: &'a Network,
    pub request: Request<'a>,
    pub policy: &'a Policy,
    pub relax: Relax,
    pub parts: Vec<Part<'a>>,
    pub streams: Vec<Stream>,
    /// Nanoseconds after submission.
    pub deadline: Option<Ratio>,
    /// Micro-units per nanosecond.
    pub value: Ratio,
    pub late: Option<Ratio>,
    /// Micro-units.
    pub budget: Option<Ratio>,
    /// Openings of the order's own window have factor 0 here.
    pub window: Option<RefCell<Tariff>>,
    /// Tariffs of sites with windows, equal ones shared, by site.
    tariffs: Rc<[Rc<RefCell<Tariff>>]>,
    /// Least integral of the factor, by tariff and hours.
    least: RefCell<HashMap<Stretch, Option<Ratio>>>,
    /// By replicas of each component.
    bounds: RefCell<HashMap<Vec<u32>, Option<Bounds>>>,
    /// Links allowed for a plain and for an encrypted flow.
    allowed: [OnceCell<Mask>; 2],
    /// Rungs of the ladder up to the policy's limit, in kbit/s, highest first.
    pub rungs: Vec<u64>,
    pub what_if: WhatIf,
}

/// What a question supposes that the view does not say.
#[derive(Debug, Clone, Default)]
pub(crate) struct WhatIf {
    /// Sites have these nodes free.
    pub nodes: BTreeMap<usize, Rc<[rhumb_federation::FreeNodes]>>,
    /// A link, by its ordinal, is encrypted.
    pub encrypted: Option<u32>,
    /// A link's figures are fresh.
    pub fresh: Option<u32>,
}

/// Rungs of staging, in kbit/s.
const LADDER: [u64; 14] = [
    10_000_000, 5_000_000, 2_000_000, 1_000_000, 500_000, 200_000, 100_000, 50_000, 20_000, 10_000, 5_000, 2_000,
    1_000, 0,
];

impl<'a> Problem<'a> {
    /// `Err`: the order itself cannot be placed anywhere in this federation (what it names is not there).
    pub fn new(
        view: &'a View,
        net: &'a Network,
        request: Request<'a>,
        policy: &'a Policy,
        relax: Relax,
    ) -> Result<Self, Vec<Reason>> {
        let order = request.order;
        let mut wrong = Vec::new();
        let terms = &order.terms;
        let mut money = |amount: Option<Amount>, what: &str| -> Option<Ratio> {
            match amount?.micros_in(view.currency, &view.rates) {
                Ok(micros) => Some(micros),
                Err(error) => {
                    wrong.push(not_allowed(&format!("{what} in {}", view.currency), &error.to_string()));
                    None
                }
            }
        };
        let per_ns = |micros: Ratio| micros.checked_div(&Ratio::from_integer(HOUR)).unwrap_or(micros);
        let value = money(terms.value_per_hour, "value_per_hour").map_or(Ratio::from_integer(0), per_ns);
        let late = money(terms.late_per_hour, "late_per_hour").map(per_ns);
        let budget = money(terms.budget, "budget").filter(|_| !relax.budget);
        let since = |t: jiff::Timestamp| Ratio::from_integer(t.as_nanosecond() - request.submit.as_nanosecond());
        let window =
            terms.window.as_ref().filter(|_| !relax.window).map(|w| RefCell::new(Tariff::openings(w, request.submit)));
        let streams = if relax.flows { Vec::new() } else { streams::streams(view, request, relax, &mut wrong) };
        if !wrong.is_empty() {
            return Err(wrong);
        }
        let parts = (0..order.components.len()).map(|i| part(view, request, relax, i)).collect();
        Ok(Self {
            view,
            net,
            request,
            policy,
            relax,
            parts,
            streams,
            deadline: terms.deadline.filter(|_| !relax.deadline).map(since),
            value,
            late,
            budget,
            window,
            tariffs: tariffs(view, request.submit).into(),
            least: RefCell::default(),
            bounds: RefCell::default(),
            allowed: Default::default(),
            rungs: LADDER.into_iter().filter(|r| *r > 0 && *r <= policy.staging_max.kbps()).collect(),
            what_if: WhatIf::default(),
        })
    }

    /// The same question with other constraints left aside.
    pub fn relaxed(&self, relax: Relax) -> Problem<'_> {
        let stands = |r: Relax| (r.capacity, r.draining, r.stale);
        let same = stands(relax) == stands(self.relax);
        self.variant(self.request.order, relax, |i, _| same.then(|| self.parts[i].stands.clone()))
    }

    /// The question that another order asks of the same view, or the same order with other constraints left aside.
    /// `stands` says where a component can stand, where that is known.
    pub fn variant<'b>(
        &'b self,
        order: &'b rhumb_model::Order,
        relax: Relax,
        stands: impl Fn(usize, &'b Component) -> Option<Vec<Stand<'b>>>,
    ) -> Problem<'b>
    where
        'a: 'b,
    {
        let terms = &order.terms;
        let mut wrong = Vec::new();
        let request = Request { order, ..self.request };
        let parts = (order.components.iter().enumerate())
            .map(|(i, c)| match stands(i, c) {
                Some(stands) => part_of(request, i, stands),
                None => part(self.view, request, relax, i),
            })
            .collect();
        let money = |amount: Option<Amount>| amount?.micros_in(self.view.currency, &self.view.rates).ok();
        let submit = self.request.submit;
        let since = |t: jiff::Timestamp| Ratio::from_integer(t.as_nanosecond() - submit.as_nanosecond());
        let per_ns = |micros: Ratio| micros.checked_div(&Ratio::from_integer(HOUR)).unwrap_or(micros);
        let streams = if relax.flows { Vec::new() } else { streams::streams(self.view, request, relax, &mut wrong) };
        Problem {
            view: self.view,
            net: self.net,
            request,
            policy: self.policy,
            relax,
            parts,
            streams,
            deadline: terms.deadline.filter(|_| !relax.deadline).map(since),
            value: money(terms.value_per_hour).map_or(Ratio::from_integer(0), per_ns),
            late: money(terms.late_per_hour).map(per_ns),
            budget: money(terms.budget).filter(|_| !relax.budget),
            window: terms.window.as_ref().filter(|_| !relax.window).map(|w| RefCell::new(Tariff::openings(w, submit))),
            tariffs: Rc::clone(&self.tariffs),
            least: RefCell::default(),
            bounds: RefCell::default(),
            allowed: Default::default(),
            rungs: self.rungs.clone(),
            what_if: self.what_if.clone(),
        }
    }

    /// The same question with stands only at these sites, by part.
    pub fn at(mut self, kept: &[Vec<bool>]) -> Self {
        self.parts.iter_mut().zip(kept).for_each(|(part, sites)| part.stands.retain(|s| sites[s.site]));
        self.bounds = RefCell::default();
        self
    }

    pub fn link(&self, edge: u32) -> &'a rhumb_federation::ViewLink {
        &self.view.graph[petgraph::graph::EdgeIndex::new(self.net.edges[edge as usize].index)]
    }

    pub fn is_encrypted(&self, edge: u32) -> bool {
        self.policy.overlay_encrypts || self.link(edge).encrypted || self.what_if.encrypted == Some(edge)
    }

    pub fn is_stale(&self, edge: u32) -> bool {
        !self.policy.allow_stale && self.link(edge).stale && self.what_if.fresh != Some(edge)
    }

    pub fn site_point(&self, site: usize) -> u32 {
        self.view.sites[site].point.index() as u32
    }

    pub fn nodes(&self, site: usize) -> &[rhumb_federation::FreeNodes] {
        match self.what_if.nodes.get(&site) {
            Some(nodes) => nodes,
            None => stand::nodes(&self.view.sites[site], self.relax),
        }
    }

    /// The price windows of a site.
    pub fn tariff(&self, site: usize) -> Rc<RefCell<Tariff>> {
        Rc::clone(&self.tariffs[site])
    }

    /// No run of this length at the site has a lower integral of the price factor; exact where the start is known.
    pub fn least(&self, site: usize, length: &Ratio) -> Option<Ratio> {
        let tariff = &self.tariffs[site];
        if tariff.borrow().is_flat() {
            return tariff.borrow_mut().least(length);
        }
        let key = (Rc::as_ptr(tariff), *length);
        if let Some(known) = self.least.borrow().get(&key) {
            return *known;
        }
        let terms = &self.request.order.terms;
        let staged = self.streams.iter().any(|s| s.span == Span::Inbound);
        let waits = self.window.is_some() || (self.deadline.is_some() && terms.value_per_hour.is_none());
        let mut tariff = tariff.borrow_mut();
        let least =
            if staged || waits { tariff.least(length) } else { tariff.integral(&Ratio::from_integer(0), length) };
        self.least.borrow_mut().insert(key, least);
        least
    }

    /// The bounds of all stands for so many replicas of each component, worked out once.
    pub fn bounds(&self, totals: &[u32]) -> Option<Bounds> {
        if let Some(known) = self.bounds.borrow().get(totals) {
            return known.clone();
        }
        let bounds = Bounds::new(self, totals);
        self.bounds.borrow_mut().insert(totals.to_vec(), bounds.clone());
        bounds
    }

    /// What a stream at `kbps` asks of links. `None`: no link carries that rate.
    pub fn ask(&self, stream: &Stream, kbps: u64, walk: Direction) -> Option<Ask<'_>> {
        let kbps = if self.relax.bandwidth { 0 } else { self.net.class(kbps)? };
        Some(Ask { allowed: &self.mask(stream.encrypted).allowed, kbps, price: stream.price(), walk })
    }

    fn mask(&self, encrypted: bool) -> &Mask {
        self.allowed[usize::from(encrypted)].get_or_init(|| self.net.mask(streams::allowed(self, encrypted)))
    }

    /// Distances of all points to `roots`, kept for the whole view.
    pub fn tree(&self, stream: &Stream, ask: &Ask, roots: &Rc<[u32]>) -> Rc<Tree> {
        self.net.tree(self.mask(stream.encrypted), ask, roots)
    }
}

pub(crate) fn not_allowed(needed: &str, free: &str) -> Reason {
    Reason {
        reason: ReasonKind::NotAllowed,
        component: None,
        flow: None,
        site: None,
        needed: needed.to_owned(),
        free: free.to_owned(),
    }
}

fn demand_of(order: &rhumb_model::Order, index: usize) -> u64 {
    let name = &order.components[index].name;
    let to = |end: &End| matches!(end, End::Component(c) if c == name);
    order.flows.iter().filter(|f| to(&f.to)).filter_map(|f| f.demand).map(rhumb_model::Demand::millirps).sum()
}

fn part<'a>(view: &'a View, request: Request<'a>, relax: Relax, index: usize) -> Part<'a> {
    let component = &request.order.components[index];
    part_of(request, index, stand::stands(view, request, relax, component, component.replicas.max.max(1)))
}

fn part_of<'a>(request: Request<'a>, index: usize, stands: Vec<Stand<'a>>) -> Part<'a> {
    let demand = demand_of(request.order, index);
    let component = &request.order.components[index];
    let serves = component.service.as_ref().map_or(0, |s| s.serves.millirps());
    let served = if serves == 0 { 0 } else { u32::try_from(demand.div_ceil(serves)).unwrap_or(u32::MAX) };
    let fewest = component.replicas.min.max(served);
    let most = component.replicas.max;
    let interconnect = component.need.accelerators.as_ref().map(|a| a.interconnect);
    Part {
        component,
        fewest,
        most,
        stands,
        demand,
        serves,
        one_site: matches!(interconnect, Some(Interconnect::Site | Interconnect::Rack | Interconnect::NvlDomain)),
        spread_site: component.place.spread == Some(Spread::Site),
    }
}

/// The sites' tariffs; sites with the same windows share one.
fn tariffs(view: &View, submit: jiff::Timestamp) -> Vec<Rc<RefCell<Tariff>>> {
    let mut known: Vec<(&[rhumb_model::price::PriceWindow], Rc<RefCell<Tariff>>)> = Vec::new();
    let tariff = |site: &'_ rhumb_federation::ViewSite| -> Rc<RefCell<Tariff>> {
        Rc::new(RefCell::new(Tariff::new(&site.site.prices, submit)))
    };
    let mut list = Vec::with_capacity(view.sites.len());
    for site in &view.sites {
        let windows = site.site.prices.windows.as_slice();
        let same = known.iter().take(SHARED).find(|(w, _)| *w == windows).map(|(_, t)| Rc::clone(t));
        list.push(same.unwrap_or_else(|| {
            let new = tariff(site);
            known.push((windows, Rc::clone(&new)));
            new
        }));
    }
    list
}

/// Different tariffs that are compared with, at most: beyond that comparing costs more than it saves.
const SHARED: usize = 32;
