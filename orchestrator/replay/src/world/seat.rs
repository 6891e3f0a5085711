//! From a plan's sites to nodes and devices.

use super::World;
use rhumb_model::{
    ModelName, Order, Plan,
    name::Label,
    order::{Component, Interconnect, Spread},
};
use std::collections::BTreeSet;

/// One replica on its devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seat {
    pub host: usize,
    /// Index into the order's components.
    pub component: usize,
    pub model: Option<ModelName>,
    pub devices: Vec<u32>,
}

type DomainOf = fn(&rhumb_model::fit::NodeShape) -> Option<&Label>;

/// The part of the hosts that one try looks at.
#[derive(Debug, Clone, Copy)]
enum Within<'a> {
    All,
    Domain(DomainOf, &'a Label),
    /// A node whose domain is not known shares one with itself alone.
    Host(usize),
}

impl World {
    /// Seats every replica of the plan: on `chosen` hosts where some are given, else on the tightest that take it.
    /// `None`: they do not fit, and nothing is changed.
    pub fn seat(&mut self, order: &Order, plan: &Plan, chosen: &[usize]) -> Option<Vec<Seat>> {
        let mut seats: Vec<Seat> = Vec::new();
        for (index, component) in order.components.iter().enumerate() {
            let placed = plan.components.iter().find(|p| p.name == component.name);
            for assignment in placed.map_or(&[][..], |p| &p.assignments) {
                let site = self.view.site_index(&assignment.site);
                let model = assignment.model.as_ref();
                let fits = site.is_some_and(|site| {
                    self.seat_here((index, component), site, (model, assignment.replicas), chosen, &mut seats)
                });
                if !fits {
                    self.unseat(order, &seats);
                    return None;
                }
            }
        }
        Some(seats)
    }

    /// Frees what the seats take.
    pub fn unseat(&mut self, order: &Order, seats: &[Seat]) {
        for seat in seats {
            let need = &order.components[seat.component].need;
            self.change(seat.host, |host| host.take_back(need, &seat.devices));
        }
    }

    fn seat_here(
        &mut self,
        (index, component): (usize, &Component),
        site: usize,
        (model, replicas): (Option<&ModelName>, u32),
        chosen: &[usize],
        seats: &mut Vec<Seat>,
    ) -> bool {
        let domain: DomainOf = match component.need.accelerators.as_ref().map(|a| a.interconnect) {
            Some(Interconnect::Rack) => |shape| shape.rack.as_ref(),
            Some(Interconnect::NvlDomain) => |shape| shape.nvl_domain.as_ref(),
            _ => return self.seat_within((index, component), site, (model, replicas), (chosen, Within::All), seats),
        };
        let range = self.host_numbers(site);
        let labels: BTreeSet<Label> =
            self.hosts[range.clone()].iter().filter_map(|h| domain(&h.shape).cloned()).collect();
        let alone: Vec<usize> = range.filter(|h| domain(&self.hosts[*h].shape).is_none()).collect();
        let named = labels.iter().map(|label| Within::Domain(domain, label));
        let tries: Vec<Within> = named.chain(alone.into_iter().map(Within::Host)).collect();
        tries.into_iter().any(|within| {
            let before = seats.len();
            let done = self.seat_within((index, component), site, (model, replicas), (chosen, within), seats);
            if !done {
                for seat in seats.drain(before..).collect::<Vec<_>>() {
                    self.change(seat.host, |host| host.take_back(&component.need, &seat.devices));
                }
            }
            done
        })
    }

    fn seat_within(
        &mut self,
        (index, component): (usize, &Component),
        site: usize,
        (model, replicas): (Option<&ModelName>, u32),
        (chosen, within): (&[usize], Within),
        seats: &mut Vec<Seat>,
    ) -> bool {
        let need = &component.need;
        for _ in 0..replicas {
            let taken: Vec<usize> = seats.iter().filter(|s| s.component == index).map(|s| s.host).collect();
            let free = |host: usize| {
                let this = &self.hosts[host];
                let inside = match within {
                    Within::All => true,
                    Within::Domain(of, label) => of(&this.shape) == Some(label),
                    Within::Host(only) => only == host,
                };
                let apart = match component.place.spread {
                    None | Some(Spread::Site) => true,
                    Some(Spread::Node) => !taken.contains(&host),
                    Some(Spread::Rack) => taken.iter().all(|t| self.hosts[*t].shape.rack != this.shape.rack),
                };
                this.kept.is_none() && inside && apart
            };
            let here = self.host_numbers(site);
            let picked = chosen.iter().copied().filter(|h| here.contains(h) && free(*h));
            let given = picked.into_iter().find(|h| self.hosts[*h].left(need, model).is_some());
            let host = given.or_else(|| {
                let fits = here.filter(|h| free(*h)).filter_map(|h| Some((self.hosts[h].left(need, model)?, h)));
                fits.min().map(|(_, h)| h)
            });
            let Some(host) = host else { return false };
            let Some(devices) = self.change(host, |h| h.give(need, model)) else { return false };
            seats.push(Seat { host, component: index, model: model.cloned(), devices });
        }
        true
    }
}
