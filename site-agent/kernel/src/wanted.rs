//! The objects of a set of legs: a total function, so that the same legs always give the same objects.

use crate::{
    bucket, gate,
    intent::{Intent, Place, Refusal, Stance, Tunnel, Uplink},
    object::{Address, Family, Link, Object, Objects, Route, RouteKind, Rule},
    owner::Owner,
    vni::{Vni, VniRange},
};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use rhumb_model::OrderId;
use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// Rules of legs that carry, and of legs that stand by; each band has room for ten thousand numbers before they repeat,
/// and ends before the main table's rule (32766).
pub const CARRYING: u32 = 10_000;
pub const STANDBY: u32 = 20_000;
const BAND: u32 = 10_000;
/// The kernel's main routing table.
pub const MAIN: u32 = 254;
/// What an IPv6 link must carry (RFC 8200); tunnels with an IPv6 address of their own are such links.
const LEAST_V6: u32 = 1_280;
/// What an IPv4 link must carry (RFC 791).
const LEAST_V4: u32 = 68;
/// What there should be, and what cannot be.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wanted {
    pub objects: Objects,
    /// Whose each object is; a segment of this point may be several legs'.
    pub owners: BTreeMap<Object, BTreeSet<Owner>>,
    pub refused: BTreeMap<Owner, Refusal>,
}

/// The objects of `legs`. `uplink` says how an underlay address is reached; `pool` which numbers this point gives away.
pub fn wanted(legs: &[Intent], pool: Option<VniRange>, uplink: impl Fn(&IpAddr) -> Option<Uplink>) -> Wanted {
    let mut wanted = Wanted::default();
    let mut held = Held::default();
    let newest = newest(legs);
    // in the order of their owners: who holds a number does not depend on who came first in a list
    let mut sorted: Vec<&Intent> = legs.iter().collect();
    sorted.sort_by_key(|leg| leg.owner);
    for leg in sorted {
        match objects(leg, stance(leg, &newest), &held, pool, &uplink) {
            Ok(objects) => {
                held.take(leg);
                for object in objects {
                    wanted.owners.entry(object.clone()).or_default().insert(leg.owner);
                    wanted.objects.insert(object);
                }
            }
            Err(refusal) => drop(wanted.refused.insert(leg.owner, refusal)),
        }
    }
    wanted
}

/// Which of a leg's paths carries where several are to: the newest.
type Newest = BTreeMap<(OrderId, u32), (u64, u32)>;

fn newest(legs: &[Intent]) -> Newest {
    let mut newest = Newest::new();
    for Owner { order, generation, leg, path } in
        legs.iter().filter(|leg| leg.stance == Stance::Carrying).map(|leg| leg.owner)
    {
        let at = newest.entry((order, leg)).or_default();
        *at = (generation, path).max(*at);
    }
    newest
}

fn stance(leg: &Intent, newest: &Newest) -> Stance {
    let Owner { order, generation, leg: number, path } = leg.owner;
    let first = newest.get(&(order, number)) == Some(&(generation, path));
    if first { leg.stance } else { leg.stance.min(Stance::Standby) }
}

/// What only one tunnel can have, and whose it is.
#[derive(Debug, Default)]
struct Held {
    numbers: BTreeMap<Vni, Owner>,
    addresses: BTreeMap<IpAddr, Owner>,
}

impl Held {
    fn take(&mut self, leg: &Intent) {
        for tunnel in leg.tunnels() {
            self.numbers.insert(tunnel.vni, leg.owner);
            self.addresses.extend(tunnel.own_addresses().into_iter().map(|address| (address, leg.owner)));
        }
    }

    fn admit(&self, tunnel: &Tunnel) -> Result<(), Refusal> {
        if let Some(by) = self.numbers.get(&tunnel.vni) {
            return Err(Refusal::Held { vni: tunnel.vni, by: *by });
        }
        for address in tunnel.own_addresses() {
            if let Some(by) = self.addresses.get(&address) {
                return Err(Refusal::Shared { address, by: *by });
            }
        }
        Ok(())
    }
}

fn objects(
    leg: &Intent,
    stance: Stance,
    held: &Held,
    pool: Option<VniRange>,
    uplink: &impl Fn(&IpAddr) -> Option<Uplink>,
) -> Result<Vec<Object>, Refusal> {
    if let Place::Transit { sid, device } = &leg.place {
        return Ok(vec![end(*sid, device)]);
    }
    if leg.rate.is_zero() {
        return Err(Refusal::NoRate);
    }
    if leg.dscp > 63 {
        return Err(Refusal::Dscp(leg.dscp));
    }
    let mut made = Vec::new();
    for tunnel in leg.tunnels() {
        held.admit(tunnel)?;
        if let Some(pool) = pool {
            pool.admit(tunnel.vni)?;
        }
        made.extend(self::tunnel(leg, tunnel, uplink)?);
    }
    let (source, sink) = (&leg.source, &leg.sink);
    match &leg.place {
        Place::Source { next } => made.extend(edge(next, stance, source, sink, leg.ends.sink)),
        Place::Sink { previous } => made.extend(edge(previous, stance, sink, source, leg.ends.source)),
        Place::Relay { previous, next } => {
            if previous.vni == next.vni {
                return Err(Refusal::Held { vni: next.vni, by: leg.owner });
            }
            made.extend(relay(leg, previous, next));
        }
        Place::Transit { .. } => {}
    }
    Ok(made)
}

/// A tunnel's link with what rides on it, and the way of its outer packets.
fn tunnel(leg: &Intent, tunnel: &Tunnel, uplink: &impl Fn(&IpAddr) -> Option<Uplink>) -> Result<Vec<Object>, Refusal> {
    let Tunnel { vni, local, remote, own, peer, segments } = tunnel;
    if u32::from(*own) ^ u32::from(*peer) != 1 {
        return Err(Refusal::Inner { own: *own, peer: *peer });
    }
    if local.is_ipv4() != remote.is_ipv4() || local == remote {
        return Err(Refusal::Families { local: *local, remote: *remote });
    }
    if !segments.is_empty() && local.is_ipv4() {
        return Err(Refusal::Segments { local: *local });
    }
    let hop = tunnel.first_hop();
    let Uplink { device, mtu } = uplink(&hop).ok_or(Refusal::NoUplink { to: hop })?;
    let overhead = tunnel.overhead();
    let left = mtu.saturating_sub(overhead);
    let asked = leg.mtu.unwrap_or(left);
    if asked > left {
        return Err(Refusal::Mtu { asked, device, mtu, to: *remote, overhead, left });
    }
    let least = if segments.is_empty() { LEAST_V4 } else { LEAST_V6 };
    if asked < least {
        return Err(Refusal::Small { to: *remote, device, left: asked, least });
    }
    let name = vni.link();
    let link = Link {
        name: name.clone(),
        vni: vni.number(),
        local: *local,
        remote: *remote,
        tos: leg.dscp << 2,
        mtu: asked,
        owner: Some(leg.owner),
        up: true,
    };
    let address = Address { link: name.clone(), address: IpAddr::V4(*own), prefix: 31 };
    let mut made = vec![Object::Gates, Object::Gate(gate::gate(&name, leg, tunnel)), Object::Link(link)];
    made.extend([Object::Address(address), Object::Shaper(bucket::shaper(&name, leg.rate, asked))]);
    if let (IpAddr::V6(local), IpAddr::V6(remote), false) = (local, remote, segments.is_empty()) {
        let (destination, table) = (host_v6(*remote), vni.table());
        made.push(Object::Address(Address { link: name, address: IpAddr::V6(*local), prefix: 128 }));
        made.push(Object::Route(Route {
            table,
            destination,
            link: Some(device),
            via: None,
            source: None,
            kind: RouteKind::Segments(segments.clone()),
        }));
        made.push(Object::Rule(Rule {
            priority: CARRYING + vni.number() % BAND,
            from: None,
            to: Some(destination),
            arriving: None,
            table,
            family: Family::V6,
        }));
    }
    Ok(made)
}

/// Routes and rules at an end of the leg, `near` and `far` as seen from there.
fn edge(tunnel: &Tunnel, stance: Stance, near: &[Ipv4Net], far: &[Ipv4Net], far_end: Ipv4Addr) -> Vec<Object> {
    let (table, link) = (tunnel.vni.table(), tunnel.vni.link());
    let band = match stance {
        Stance::Idle => None,
        Stance::Standby => Some(STANDBY),
        Stance::Carrying => Some(CARRYING),
    };
    let priority = band.map(|band| band + tunnel.vni.number() % BAND);
    let route = |to: Ipv4Net, source| Object::Route(towards(table, to, &link, tunnel.peer, source));
    let rule = |priority: u32, from: Option<Ipv4Net>, to: Ipv4Net| {
        let (from, to) = (from.map(|net| IpNet::V4(net.trunc())), Some(IpNet::V4(to.trunc())));
        Object::Rule(Rule { priority, from, to, arriving: None, table, family: Family::V4 })
    };
    let mut made = Vec::new();
    for to in far {
        made.push(route(*to, None));
        made.extend(near.iter().filter_map(|from| Some(rule(priority?, Some(*from), *to))));
    }
    if far_end != tunnel.peer {
        // the path's own end, reached by it alone whatever carries
        made.push(route(host_v4(far_end), Some(IpAddr::V4(tunnel.own))));
        made.push(rule(CARRYING + tunnel.vni.number() % BAND, None, host_v4(far_end)));
    }
    made
}

/// What comes out of either tunnel goes into the other, or nowhere.
fn relay(leg: &Intent, previous: &Tunnel, next: &Tunnel) -> Vec<Object> {
    let table = next.vni.table();
    let mut made = Vec::new();
    let ways = [(next, &leg.sink, leg.ends.sink), (previous, &leg.source, leg.ends.source)];
    for (out, networks, end) in ways {
        let mut to: Vec<Ipv4Net> = networks.clone();
        to.push(host_v4(end));
        let link = out.vni.link();
        made.extend(to.into_iter().map(|to| Object::Route(towards(table, to, &link, out.peer, None))));
        made.push(Object::Rule(Rule {
            priority: CARRYING + out.vni.number() % BAND,
            from: None,
            to: None,
            arriving: Some(link),
            table,
            family: Family::V4,
        }));
    }
    let nowhere = IpNet::V4(Ipv4Net::default());
    let (link, via, source) = (None, None, None);
    made.push(Object::Route(Route { table, destination: nowhere, link, via, source, kind: RouteKind::Blackhole }));
    made
}

fn towards(table: u32, to: Ipv4Net, link: &str, peer: Ipv4Addr, source: Option<IpAddr>) -> Route {
    let (link, via) = (Some(link.to_owned()), Some(IpAddr::V4(peer)));
    Route { table, destination: IpNet::V4(to.trunc()), link, via, source, kind: RouteKind::Plain }
}

fn end(sid: Ipv6Addr, device: &str) -> Object {
    // any device will do, the kernel wants one named
    let (link, via, source) = (Some(device.to_owned()), None, None);
    Object::Route(Route { table: MAIN, destination: host_v6(sid), link, via, source, kind: RouteKind::End })
}

fn host_v4(address: Ipv4Addr) -> Ipv4Net {
    Ipv4Net::from(address)
}

fn host_v6(address: Ipv6Addr) -> IpNet {
    IpNet::V6(Ipv6Net::from(address))
}
