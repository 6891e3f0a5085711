//! The order and the view by dense ordinal: what one search works on.

use crate::{
    fan::Fans,
    field::Field,
    mask::Mask,
    network::{Direction, Network, Price},
    part::Part,
    path::{Ask, Tree},
    policy::{Policy, Request},
    reach::{Reach, Rules},
    room::Mix,
    several, stand,
    starts::Starts,
    streams,
    window::{Meter, Tariff},
};
use num_traits::CheckedDiv;
use rhumb_federation::{FreeNodes, View, ViewLink};
use rhumb_model::{Order, Reason, ReasonKind, money::Amount, ratio::Ratio};
use std::{
    cell::{Cell, OnceCell, RefCell},
    collections::{BTreeMap, HashMap},
    rc::Rc,
    sync::Arc,
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
#[allow(clippy::struct_excessive_bools)] // they are the flow's own
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
    /// With a backup that shares nothing with the path.
    pub protected: bool,
    /// Over several paths.
    pub split: bool,
    /// The region's access alone is beyond the bound.
    pub hopeless: bool,
}

impl Stream {
    /// What each path of a leg must carry at the least: of several, one may carry next to nothing.
    pub fn on_one_path(&self, kbps: u64) -> u64 {
        if self.split { kbps.min(1) } else { kbps }
    }

    pub fn price(&self) -> Price {
        match (self.span, self.kbps) {
            (Span::Run, None) => Price::Free,
            (Span::Run, Some(_)) => Price::Rate,
            _ => Price::Volume,
        }
    }
}

/// A tariff, by its address, and a length in nanoseconds.
type Stretch = (usize, i128);

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
    /// Micro-units for a device that is made unusable for an hour; `None`: it costs nothing.
    pub fragmentation: Option<Ratio>,
    pub mix: Mix<'a>,
    /// Openings of the order's own window have factor 0 here.
    pub window: Option<RefCell<Tariff>>,
    starts: OnceCell<Starts>,
    /// Least integral of the factor, by tariff and hours.
    least: RefCell<HashMap<Stretch, Option<(i128, i128)>>>,
    /// By replicas of each component.
    fields: RefCell<HashMap<Vec<u32>, Option<Rc<Field>>>>,
    pub fans: Fans,
    /// Labels that path searches made and the search has not yet been charged for.
    pub labels: Cell<u64>,
    /// Pairs of paths of protected legs, worked out once.
    pub pairs: RefCell<HashMap<several::Key, Rc<several::Pairs>>>,
    /// The least sum of the delays of two paths without a common link, in microseconds.
    pub twos: RefCell<HashMap<several::Two, Option<i128>>>,
    /// Links allowed for a plain and for an encrypted flow.
    allowed: [OnceCell<Mask>; 2],
    /// By stream: what the widest path to each point carries.
    wide: RefCell<HashMap<usize, Rc<[u64]>>>,
    /// Rungs of the ladder up to the policy's limit, in kbit/s, highest first.
    pub rungs: Vec<u64>,
    /// Nodes that sites are supposed to have free, whatever the view says.
    pub supposed: BTreeMap<usize, Rc<[FreeNodes]>>,
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
        let fragmentation = money(policy.fragmentation_per_device_hour, "the policy's fragmentation_per_device_hour");
        let since = |t: jiff::Timestamp| Ratio::from_integer(t.as_nanosecond() - request.submit.as_nanosecond());
        let window =
            terms.window.as_ref().filter(|_| !relax.window).map(|w| RefCell::new(Tariff::openings(w, request.submit)));
        let streams = if relax.flows { Vec::new() } else { streams::streams(view, request, relax, &mut wrong) };
        if !wrong.is_empty() {
            return Err(wrong);
        }
        let parts = (0..order.components.len()).map(|i| Part::new(view, net, request, relax, i)).collect();
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
            fragmentation,
            mix: Mix::new(policy),
            window,
            starts: OnceCell::new(),
            least: RefCell::default(),
            fields: RefCell::default(),
            fans: Fans::default(),
            labels: Cell::new(0),
            pairs: RefCell::default(),
            twos: RefCell::default(),
            allowed: Default::default(),
            wide: RefCell::default(),
            rungs: LADDER.into_iter().filter(|r| *r > 0 && *r <= policy.staging_max.kbps()).collect(),
            supposed: BTreeMap::new(),
        })
    }

    /// The same question with other constraints left aside.
    pub fn relaxed(&self, relax: Relax) -> Problem<'_> {
        let stands = |r: Relax| (r.capacity, r.draining, r.stale);
        let same = stands(relax) == stands(self.relax);
        self.variant(self.request.order, relax, |request, i| {
            if same { self.parts[i].again(request, i) } else { Part::new(self.view, self.net, request, relax, i) }
        })
    }

    /// The question that another order asks of the same view, or the same order with other constraints left aside.
    /// `part` gives its components by index.
    pub fn variant<'b>(
        &'b self,
        order: &'b Order,
        relax: Relax,
        part: impl Fn(Request<'b>, usize) -> Part<'b>,
    ) -> Problem<'b>
    where
        'a: 'b,
    {
        let terms = &order.terms;
        let mut wrong = Vec::new();
        let request = Request { order, ..self.request };
        let parts = (0..order.components.len()).map(|i| part(request, i)).collect();
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
            fragmentation: self.fragmentation,
            mix: Mix::new(self.policy),
            starts: OnceCell::new(),
            least: RefCell::default(),
            fields: RefCell::default(),
            fans: Fans::default(),
            labels: Cell::new(0),
            pairs: RefCell::default(),
            twos: RefCell::default(),
            allowed: Default::default(),
            wide: RefCell::default(),
            rungs: self.rungs.clone(),
            supposed: self.supposed.clone(),
        }
    }

    /// The same question with stands only at these sites, by part.
    pub fn at(mut self, kept: &[Vec<bool>]) -> Self {
        self.parts = self.parts.into_iter().zip(kept).map(|(part, sites)| part.only(|site| sites[site])).collect();
        self.fields = RefCell::default();
        self
    }

    pub fn link(&self, edge: u32) -> &'a ViewLink {
        &self.view.graph[petgraph::graph::EdgeIndex::new(self.net.edges[edge as usize].index as usize)]
    }

    pub fn is_encrypted(&self, edge: u32) -> bool {
        self.policy.overlay_encrypts || self.net.edges[edge as usize].encrypted
    }

    pub fn is_stale(&self, edge: u32) -> bool {
        !self.policy.allow_stale && self.net.edges[edge as usize].stale
    }

    pub fn site_point(&self, site: usize) -> u32 {
        self.view.sites[site].point.index() as u32
    }

    pub fn nodes(&self, site: usize) -> &[FreeNodes] {
        match self.supposed.get(&site) {
            Some(nodes) => nodes,
            None => stand::nodes(&self.view.sites[site], self.relax),
        }
    }

    /// The price windows of a site.
    pub fn meter(&self, site: usize) -> Meter<'a> {
        Meter::new(self.net.index.tariff(site), self.request.submit)
    }

    /// The instants at which the order may start.
    pub fn starts(&self) -> &Starts {
        self.starts.get_or_init(|| Starts::new(self))
    }

    /// No run of this length at the site has a lower integral of the price factor.
    pub fn least(&self, site: usize, length: &Ratio) -> Option<Ratio> {
        self.least_whole(site, length.to_integer()).map(|(sum, scale)| Ratio::new(sum, scale))
    }

    /// The same for whole nanoseconds, in parts of which there are `.1` in one.
    pub fn least_whole(&self, site: usize, length: i128) -> Option<(i128, i128)> {
        let meter = self.meter(site);
        if meter.is_flat() {
            return self.starts().least(meter, length);
        }
        let key = (meter.key(), length);
        if let Some(known) = self.least.borrow().get(&key) {
            return *known;
        }
        let least = self.starts().least(meter, length);
        self.least.borrow_mut().insert(key, least);
        least
    }

    /// The bounds of all stands for so many replicas of each component, worked out once. `None`: there is no plan.
    pub fn field(&self, totals: &[u32]) -> Option<Rc<Field>> {
        if let Some(known) = self.fields.borrow().get(totals) {
            return known.clone();
        }
        let field = Field::new(self, totals).map(Rc::new);
        self.fields.borrow_mut().insert(totals.to_vec(), field.clone());
        field
    }

    /// What a stream at `kbps` asks of links. `None`: no link carries that rate.
    pub fn ask(&self, stream: &Stream, kbps: u64, walk: Direction) -> Option<Ask<'_>> {
        let kbps = if self.relax.bandwidth { 0 } else { self.net.class(stream.on_one_path(kbps))? };
        Some(Ask {
            allowed: &self.mask(stream.encrypted).allowed,
            kbps,
            price: stream.price(),
            walk,
            labels: Some(&self.labels),
        })
    }

    /// Free kbit/s of the widest path from where the stream begins to every point, however long.
    pub fn widest(&self, stream: usize, points: &Rc<[u32]>) -> Rc<[u64]> {
        let of = || Reach::new(self).widest(&self.streams[stream], Rules::of(self.relax), points, Direction::Against);
        Rc::clone(self.wide.borrow_mut().entry(stream).or_insert_with(of))
    }

    fn mask(&self, encrypted: bool) -> &Mask {
        self.allowed[usize::from(encrypted)]
            .get_or_init(|| self.net.mask(self.view, streams::signature(self, encrypted)))
    }

    /// Distances of all points to `roots`, or less: a guide to the way there, kept from one decision to the next.
    pub fn tree(&self, stream: &Stream, ask: &Ask, roots: &[u32]) -> Arc<Tree> {
        // sites are many: one tree each has to serve all rates
        let ask = if stream.joins_parts() { Ask { kbps: 0, ..*ask } } else { *ask };
        self.net.tree(self.mask(stream.encrypted), &ask, roots)
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
