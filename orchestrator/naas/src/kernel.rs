//! Tunnels in the points' kernels: one for each path of a leg, through the segments of the points between where they have
//! some, else from point to point.

use crate::Overlay;
use rhumb_model::PointName;
use rhumb_provision::{Ask, RouteProvider};
use rhumb_wire::{KernelOffer, KernelRoute, Route, Tunnel, report::RouteKey};
use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// A point as its agent last said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelPoint {
    pub offer: KernelOffer,
    pub overlay_port: u16,
}

/// The provider for points whose agents may use their kernels. What it cannot carry goes through the agents' relays.
#[derive(Debug, Clone)]
pub struct Kernel<N> {
    points: BTreeMap<PointName, KernelPoint>,
    numbers: N,
}

/// Why a path cannot be a tunnel.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    #[error("the agent at {0} carries no routes in its kernel")]
    NoOffer(PointName),
    #[error("no tunnel number is held for {key:?} hop {hop}; take one from the pool")]
    NoNumber { key: RouteKey, hop: usize },
    #[error("tunnel number {number} is not one that {point} may use")]
    Number { number: u32, point: PointName },
    #[error("{from} and {to} have no underlay addresses of one family")]
    NoAddresses { from: PointName, to: PointName },
    #[error("tunnel number {number} has no pair of addresses inside")]
    NoInside { number: u32 },
}

impl<N: Fn(&RouteKey, usize) -> Option<u32>> Kernel<N> {
    /// `numbers` are held for each path: one, or where points between have no segments one for each of its links.
    pub fn new(points: BTreeMap<PointName, KernelPoint>, numbers: N) -> Self {
        Self { points, numbers }
    }

    /// What every point has to have for the path to be a tunnel.
    pub fn routes(&self, ask: &Ask<'_>) -> Result<Vec<(PointName, Route)>, Unfit> {
        let hops = Overlay.hops(ask);
        let path: Vec<(&PointName, &KernelPoint)> = hops
            .iter()
            .map(|(name, _)| {
                self.points.get(name).map(|point| (name, point)).ok_or_else(|| Unfit::NoOffer(name.clone()))
            })
            .collect::<Result<_, _>>()?;
        let key = RouteKey { order: ask.order, generation: ask.generation, leg: ask.leg.leg, path: ask.path.path };
        let segments: Option<Vec<Ipv6Addr>> =
            path[1..path.len() - 1].iter().map(|(_, point)| point.offer.segment).collect();
        let tunnels = match segments {
            Some(segments) if segments.is_empty() || located(&path) => self.one(&key, &path, segments)?,
            _ => self.chain(&key, &path)?,
        };
        let carried = hops
            .into_iter()
            .zip(tunnels)
            .map(|((point, route), kernel)| (point, Route { kernel: Some(kernel), ..route }));
        Ok(carried.collect())
    }

    /// A tunnel from end to end.
    fn one(
        &self,
        key: &RouteKey,
        path: &[(&PointName, &KernelPoint)],
        segments: Vec<Ipv6Addr>,
    ) -> Result<Vec<KernelRoute>, Unfit> {
        let (from, to) = (path[0], path[path.len() - 1]);
        let (near, far) = self.tunnel(key, 0, from, to, segments)?;
        let ends = Ends::of(&near, &far, path);
        let mut all = vec![ends.route(None, None, false); path.len()];
        all[0] = ends.route(None, Some(near), true);
        all[path.len() - 1] = ends.route(Some(far), None, true);
        Ok(all)
    }

    /// A tunnel for each link.
    fn chain(&self, key: &RouteKey, path: &[(&PointName, &KernelPoint)]) -> Result<Vec<KernelRoute>, Unfit> {
        let links = path.windows(2).enumerate();
        let tunnels: Vec<(Tunnel, Tunnel)> =
            links.map(|(hop, pair)| self.tunnel(key, hop, pair[0], pair[1], Vec::new())).collect::<Result<_, _>>()?;
        let ends = Ends::of(&tunnels[0].0, &tunnels[tunnels.len() - 1].1, path);
        let route = |at: usize| {
            let previous = at.checked_sub(1).map(|hop| tunnels[hop].1.clone());
            let next = tunnels.get(at).map(|(near, _)| near.clone());
            ends.route(previous, next, at == 0 || at == tunnels.len())
        };
        Ok((0..path.len()).map(route).collect())
    }

    /// Both ends of a tunnel.
    fn tunnel(
        &self,
        key: &RouteKey,
        hop: usize,
        (from, near): (&PointName, &KernelPoint),
        (to, far): (&PointName, &KernelPoint),
        segments: Vec<Ipv6Addr>,
    ) -> Result<(Tunnel, Tunnel), Unfit> {
        let number = (self.numbers)(key, hop).ok_or_else(|| Unfit::NoNumber { key: key.clone(), hop })?;
        for (point, offer) in [(from, &near.offer), (to, &far.offer)] {
            if !offer.numbers.contains(number) {
                return Err(Unfit::Number { number, point: point.clone() });
            }
        }
        let (low, high) = near.offer.numbers.inside(number).ok_or(Unfit::NoInside { number })?;
        let addresses = if segments.is_empty() {
            let pairs = near.offer.underlay.iter().flat_map(|a| far.offer.underlay.iter().map(move |b| (*a, *b)));
            pairs.into_iter().find(|(a, b)| a.is_ipv4() == b.is_ipv4())
        } else {
            near.offer.address_of(number).zip(far.offer.address_of(number)).map(|(a, b)| (IpAddr::V6(a), IpAddr::V6(b)))
        };
        let (local, remote) = addresses.ok_or_else(|| Unfit::NoAddresses { from: from.clone(), to: to.clone() })?;
        let mut back = segments.clone();
        back.reverse();
        Ok((
            Tunnel { number, local, remote, own: low, peer: high, segments },
            Tunnel { number, local: remote, remote: local, own: high, peer: low, segments: back },
        ))
    }
}

impl<N: Fn(&RouteKey, usize) -> Option<u32>> RouteProvider for Kernel<N> {
    fn name(&self) -> &'static str {
        "kernel"
    }

    fn hops(&self, ask: &Ask<'_>) -> Vec<(PointName, Route)> {
        self.routes(ask).unwrap_or_else(|_| Overlay.hops(ask))
    }
}

/// Whether tunnels through segments can end at both ends.
fn located(path: &[(&PointName, &KernelPoint)]) -> bool {
    [path[0], path[path.len() - 1]].iter().all(|(_, point)| point.offer.locator.is_some())
}

/// What every point of a path is told of its ends.
struct Ends<'a> {
    source: Ipv4Addr,
    sink: Ipv4Addr,
    from: &'a PointName,
    to: &'a PointName,
    overlay_port: u16,
}

impl<'a> Ends<'a> {
    fn of(near: &Tunnel, far: &Tunnel, path: &[(&'a PointName, &KernelPoint)]) -> Self {
        let (from, (to, last)) = (path[0].0, path[path.len() - 1]);
        Self { source: near.own, sink: far.own, from, to, overlay_port: last.overlay_port }
    }

    fn route(&self, previous: Option<Tunnel>, next: Option<Tunnel>, end: bool) -> KernelRoute {
        let peer = if previous.is_none() { self.to } else { self.from };
        KernelRoute {
            previous,
            next,
            source: self.source,
            sink: self.sink,
            peer: end.then(|| peer.clone()),
            overlay_port: self.overlay_port,
            source_networks: Vec::new(),
            sink_networks: Vec::new(),
            allow: None,
            mtu: None,
            dscp: 0,
        }
    }
}
