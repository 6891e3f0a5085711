//! A path that the kernels do not carry goes through the agents' relays instead.

use super::{Note, Step, Stepper};
use crate::{
    carriage::Carriage,
    path::{PathRole, PathState},
    saga::{Goal, Saga},
};
use rhumb_model::{Phase, PointName};

impl Saga {
    /// Paths that are to be built now, of which nobody has decided how: leg and path.
    pub fn open_paths(&self) -> Vec<(u32, u32)> {
        let routed = (Phase::Routing..=Phase::Running).contains(&self.phase);
        let paths = self.legs.iter().filter(|_| routed).flat_map(|l| l.paths.iter().map(move |p| (l.leg, p)));
        paths.filter(|(_, p)| p.is_wanted() && p.carriage.is_open()).map(|(leg, p)| (leg, p.path)).collect()
    }

    /// Numbers of tunnels of which nothing is left since `before`: all their points have said so.
    pub fn freed_tunnels(&self, before: &Self) -> Vec<u32> {
        let gone = |saga: &Self, leg: u32, path: u32| {
            let leg = saga.legs.iter().find(|l| l.leg == leg);
            let path = leg.and_then(|l| l.paths.iter().find(|p| p.path == path));
            path.is_some_and(|p| p.role == PathRole::Gone)
        };
        let paths = self.legs.iter().flat_map(|l| l.paths.iter().map(move |p| (l.leg, p)));
        let sure =
            paths.filter(|(leg, p)| gone(self, *leg, p.path) && !gone(before, *leg, p.path) && !self.is_unsure(p));
        sure.flat_map(|(_, p)| p.carriage.numbers()).collect()
    }

    /// Numbers of tunnels of which something may be left, at points that were given up.
    pub fn unsure_tunnels(&self) -> Vec<u32> {
        let paths = self.legs.iter().flat_map(|l| &l.paths).filter(|p| self.is_unsure(p));
        paths.flat_map(|p| p.carriage.numbers()).collect()
    }

    fn is_unsure(&self, path: &PathState) -> bool {
        let dead = path.role != PathRole::Gone && path.points.iter().any(|p| self.dead.contains(p));
        dead || !path.silent.is_empty()
    }
}

impl Step {
    /// Settles how a path is carried, and why so, if there is something to say.
    pub fn carry(&mut self, leg: u32, path: u32, carriage: Carriage, why: Option<String>) {
        let phase = self.saga.phase;
        let Some(leg) = self.saga.legs.iter_mut().find(|l| l.leg == leg) else { return };
        let flow = leg.flow;
        let Some(path) = leg.path_mut(path).filter(|p| p.carriage.is_open()) else { return };
        let message = match (&carriage, why) {
            (Carriage::Tunnels(_), _) => {
                let numbers: Vec<String> = carriage.numbers().iter().map(ToString::to_string).collect();
                Some(format!(
                    "flow {flow} is carried by the kernel over {}: tunnel {}",
                    path.named(),
                    numbers.join(", ")
                ))
            }
            (_, Some(why)) => Some(format!("flow {flow} is carried by relays over {}: {why}", path.named())),
            (_, None) => None,
        };
        path.carriage = carriage;
        self.notes.extend(message.map(|message| Note { kind: "route", phase, message }));
        self.changed = true;
    }
}

impl Stepper {
    /// A tunnel that failed at a point: false where relays cannot take its place.
    pub(super) fn relays_instead(&mut self, index: usize, number: u32, why: &str) -> bool {
        let (now, next, phase) = (self.now, self.next, self.saga.phase);
        let goes_on = self.saga.goal == Goal::Complete && (Phase::Routing..=Phase::Running).contains(&phase);
        let leg = &mut self.saga.legs[index];
        let highest = leg.paths.iter().map(|p| p.path).max().unwrap_or(0);
        let serves = |p: &&mut PathState| matches!(p.role, PathRole::Carry | PathRole::Backup | PathRole::Next);
        let found = leg.path_mut(number).filter(serves);
        let Some(failed) = found.filter(|p| goes_on && p.carriage.is_tunnels()) else { return false };
        let mut path = PathState::new(highest + 1, failed.links.clone(), failed.points.clone(), failed.role);
        path.carriage = Carriage::Relays;
        path.rate = failed.rate;
        path.begun = Some(now);
        path.since = (failed.role != PathRole::Next).then_some(now);
        let message = format!("flow {} goes through relays over {}: {why}", leg.flow, path.named());
        leg.close(number, next, now);
        leg.paths.push(path);
        leg.barrier = next;
        self.desired_changed = true;
        self.note("route", message);
        true
    }

    /// Tunnels that do not come up: what is between may pass some packets and not others.
    pub(super) fn mind_tunnels(&mut self, index: usize) {
        let (now, rules) = (self.now, self.saga.rules);
        if self.saga.phase > Phase::Routing {
            return;
        }
        let since = self.saga.phase_since;
        let stuck = |p: &&PathState| {
            let began = p.begun.unwrap_or(since);
            p.carriage.is_tunnels() && p.is_wanted() && !p.is_active() && now.duration_since(began) > rules.build()
        };
        let stuck: Vec<u32> = self.saga.legs[index].paths.iter().filter(stuck).map(|p| p.path).collect();
        for path in stuck {
            let why = format!("its tunnel did not come up within {} s", rules.build().as_secs());
            self.relays_instead(index, path, &why);
        }
    }

    /// The point's agent is reached at another port from now on.
    pub(super) fn moved(&mut self, point: &PointName, port: u16) {
        for path in self.saga.legs.iter_mut().flat_map(|l| &mut l.paths) {
            if !path.is_wanted() || path.sink() != point {
                continue;
            }
            let Carriage::Tunnels(routes) = &mut path.carriage else { continue };
            for route in routes.iter_mut().filter(|route| route.overlay_port != port) {
                route.overlay_port = port;
                self.desired_changed = true;
            }
        }
    }
}
