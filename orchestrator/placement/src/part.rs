//! A component of an order, and where it may stand.

use crate::{
    network::Network,
    policy::Request,
    problem::Relax,
    room,
    stand::{self, Kind, Stand},
};
use rhumb_federation::{FreeNodes, View};
use rhumb_model::{
    order::{Component, End, Interconnect, Spread},
    ratio::Ratio,
};
use std::{
    cell::Cell,
    collections::{BTreeMap, HashMap},
    rc::Rc,
};

/// A component of the order.
#[derive(Debug, Clone)]
pub(crate) struct Part<'a> {
    pub component: &'a Component,
    /// Fewest and most replicas worth trying.
    pub fewest: u32,
    pub most: u32,
    /// Where it may stand, by site and model; some may turn out to have no room.
    pub stands: Rc<[Stand<'a>]>,
    kinds: Rc<[Kind]>,
    /// Shared by all who ask about the same stands.
    rooms: Rc<[Cell<u32>]>,
    view: &'a View,
    relax: Relax,
    /// Thousandths of requests per second: asked of it by all regions, and served by one replica.
    pub demand: u64,
    pub serves: u64,
    pub one_site: bool,
    pub spread_site: bool,
}

/// Stands, what their models' kinds are, and the room of each.
type Ground<'a> = (Rc<[Stand<'a>]>, Rc<[Kind]>, Rc<[Cell<u32>]>);

/// A rounded price below which an exact one can be worked out.
const SOLD: i64 = 1 << 50;

/// A room that nobody has asked for yet.
const UNKNOWN: u32 = u32::MAX;

impl<'a> Part<'a> {
    pub fn new(view: &'a View, net: &'a Network, request: Request<'a>, relax: Relax, index: usize) -> Self {
        let (kinds, stands) =
            stand::stands(view, &net.index, request, relax, &request.order.components[index]).unwrap_or_default();
        let rooms = vec![Cell::new(UNKNOWN); stands.len()];
        Self::of(view, request, relax, index, (stands.into(), kinds.into(), rooms.into()))
    }

    /// The same component, standing where it does, in an order that was edited elsewhere.
    pub fn again<'b>(&self, request: Request<'b>, index: usize) -> Part<'b>
    where
        'a: 'b,
    {
        let stands: Rc<[Stand<'b>]> = Rc::<[Stand<'a>]>::clone(&self.stands);
        Part::of(self.view, request, self.relax, index, (stands, Rc::clone(&self.kinds), Rc::clone(&self.rooms)))
    }

    fn of(
        view: &'a View,
        request: Request<'a>,
        relax: Relax,
        index: usize,
        (stands, kinds, rooms): Ground<'a>,
    ) -> Self {
        let component = &request.order.components[index];
        let demand = demand_of(request.order, index);
        let serves = component.service.as_ref().map_or(0, |s| s.serves.millirps());
        let served = if serves == 0 { 0 } else { u32::try_from(demand.div_ceil(serves)).unwrap_or(u32::MAX) };
        let interconnect = component.need.accelerators.as_ref().map(|a| a.interconnect);
        Self {
            component,
            fewest: component.replicas.min.max(served),
            most: component.replicas.max,
            stands,
            kinds,
            rooms,
            view,
            relax,
            demand,
            serves,
            one_site: matches!(interconnect, Some(Interconnect::Site | Interconnect::Rack | Interconnect::NvlDomain)),
            spread_site: component.place.spread == Some(Spread::Site),
        }
    }

    /// The same part with stands at these sites only.
    pub fn only(self, keep: impl Fn(usize) -> bool) -> Self {
        let kept = self.stands.iter().zip(self.rooms.iter()).filter(|(s, _)| keep(s.site));
        let (stands, rooms): (Vec<_>, Vec<_>) = kept.map(|(stand, room)| (*stand, room.clone())).unzip();
        Self { stands: stands.into(), rooms: rooms.into(), ..self }
    }

    /// The same part where these sites have these nodes free; where `open` says so of a site.
    pub fn with_nodes(
        self,
        net: &'a Network,
        request: Request<'a>,
        sites: &BTreeMap<usize, Vec<FreeNodes>>,
        open: impl Fn(usize) -> bool,
    ) -> Self {
        let mut stands: Vec<(Stand, Cell<u32>)> = Vec::with_capacity(self.stands.len() + sites.len());
        let others = self.stands.iter().zip(self.rooms.iter()).filter(|(s, _)| !sites.contains_key(&s.site));
        stands.extend(others.map(|(stand, room)| (*stand, room.clone())));
        for (site, nodes) in sites.iter().filter(|(site, _)| open(**site)) {
            let here = stand::at(self.view, &net.index, request, self.component, *site);
            let room = |s: &Stand| room::most(self.component, s.model, nodes, self.limit());
            stands.extend(here.into_iter().map(|stand| (stand, Cell::new(room(&stand)))));
        }
        stands.sort_by_key(|(stand, _)| stand.site);
        let (stands, rooms): (Vec<_>, Vec<_>) = stands.into_iter().unzip();
        Self { stands: stands.into(), rooms: rooms.into(), ..self }
    }

    /// Works out all rooms, of sites of one group only once: they hold the same.
    pub fn fill(&self, group: &[usize]) {
        let mut known: HashMap<(usize, u16), u32> = HashMap::new();
        for (stand, room) in self.stands.iter().zip(self.rooms.iter()) {
            room.set(*known.entry((group[stand.site], stand.kind)).or_insert_with(|| self.most_at(stand)));
        }
    }

    /// The most replicas that fit a stand when nothing else of the order stands there.
    pub fn room(&self, stand: usize) -> u32 {
        let cell = &self.rooms[stand];
        if cell.get() == UNKNOWN {
            // an exact price is out of range only where the rounded one is beyond all that is sold
            let priced = self.stands[stand].least < SOLD || self.price(stand).is_some();
            cell.set(if priced { self.most_at(&self.stands[stand]) } else { 0 });
        }
        cell.get()
    }

    fn most_at(&self, stand: &Stand) -> u32 {
        room::most(self.component, stand.model, stand::nodes(&self.view.sites[stand.site], self.relax), self.limit())
    }

    fn limit(&self) -> u32 {
        self.most.clamp(1, UNKNOWN - 1)
    }

    /// Stands with room, and how much.
    pub fn open(&self) -> impl Iterator<Item = (&Stand<'a>, u32)> {
        let rooms = (0..self.stands.len()).map(|stand| (&self.stands[stand], self.room(stand)));
        rooms.filter(|(_, room)| *room > 0)
    }

    /// Whether there is room for a replica anywhere.
    pub fn stands_somewhere(&self) -> bool {
        self.open().next().is_some()
    }

    /// Room at all sites, each for itself.
    pub fn all_room(&self) -> u64 {
        self.open().map(|(_, room)| u64::from(room)).sum()
    }

    /// Nanoseconds that the work takes at a stand.
    pub fn hours(&self, stand: usize) -> Ratio {
        self.hours_of(&self.stands[stand])
    }

    pub fn hours_of(&self, stand: &Stand) -> Ratio {
        self.kinds[usize::from(stand.kind)].hours
    }

    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// Of one replica, in micro-units per hour at factor 1.
    pub fn price(&self, stand: usize) -> Option<Ratio> {
        let Stand { site, model, kind, .. } = self.stands[stand];
        let model = model.map(|model| (model, &self.kinds[usize::from(kind)]));
        stand::price(self.view, &self.view.sites[site], &self.component.need, model)
    }

    /// All replicas stand at one site.
    pub fn undivided(&self) -> bool {
        self.most == 1 || self.one_site
    }
}

fn demand_of(order: &rhumb_model::Order, index: usize) -> u64 {
    let name = &order.components[index].name;
    let to = |end: &End| matches!(end, End::Component(c) if c == name);
    order.flows.iter().filter(|f| to(&f.to)).filter_map(|f| f.demand).map(rhumb_model::Demand::millirps).sum()
}
