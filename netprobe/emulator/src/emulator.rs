//! The emulator as a whole: starts the fronts, takes changes, tells its state.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::JoinSet;

use crate::config::unknown;
use crate::control::{Hop, least_latency_us};
use crate::link::Link;
use crate::polled::Polled;
use crate::tcp::TcpFront;
use crate::timer::{Timer, TimerThread};
use crate::udp::{self, Target, UdpFront};
use crate::{ControlStatus, EmulatorConfig, EmulatorError, Faults, LinkShape, LinkStatus, ShapePatch, Snapshot};

/// A running emulator. Its ports close when it is dropped; [`Emulator::stop`] also waits until they are free again.
#[derive(Debug)]
pub struct Emulator {
    timer: Timer,
    links: BTreeMap<String, Directed>,
    controls: BTreeMap<String, Channel>,
    /// Serialises changes, so that the control channels follow the last one.
    change: Mutex<()>,
    servers: JoinSet<()>,
    // declared in the order they must stop: no datagram is accepted once the release has ended
    _udp: Polled,
    _release: TimerThread,
}

#[derive(Debug)]
struct Directed {
    link: Arc<Link>,
    from: String,
    to: String,
    udp_address: SocketAddr,
    tcp_address: SocketAddr,
    udp_target: Target,
    tcp_target: Target,
}

#[derive(Debug)]
struct Channel {
    home: String,
    up: Arc<Link>,
    down: Arc<Link>,
    address: SocketAddr,
    target: Target,
}

impl Emulator {
    /// Binds every front and begins to carry traffic. Must be called within a tokio runtime that drives I/O and time.
    pub fn start(config: EmulatorConfig) -> Result<Self, EmulatorError> {
        config.check()?;
        let (timer, release) = Timer::start()?;
        let made: BTreeMap<_, _> = config
            .links
            .iter()
            .map(|link| (link.id.clone(), Arc::new(Link::new(&link.id, link.shape, config.seed))))
            .collect();
        let mut servers = JoinSet::new();
        let mut udp_fronts = Vec::new();
        let mut links = BTreeMap::new();
        for link in config.links {
            let forward = Arc::clone(&made[&link.id]);
            let reverse = Arc::clone(&made[link.reverse_id.as_ref().unwrap_or(&link.id)]);
            let udp_target = Arc::new(Mutex::new(link.udp_target));
            let tcp_target = Arc::new(Mutex::new(link.tcp_target));
            let udp_wish = SocketAddr::new(config.bind, link.udp_port);
            let udp = UdpFront::bind(udp_wish, Arc::clone(&forward), Arc::clone(&reverse), Arc::clone(&udp_target))?;
            let tcp_wish = SocketAddr::new(config.bind, link.tcp_port);
            let tcp = TcpFront::bind(tcp_wish, Arc::clone(&forward), reverse, Arc::clone(&tcp_target), timer.clone())?;
            let bound = |source| EmulatorError::Bind { id: link.id.clone(), address: udp_wish, source };
            let directed = Directed {
                link: forward,
                from: link.from,
                to: link.to,
                udp_address: udp.address().map_err(bound)?,
                tcp_address: tcp.address().map_err(bound)?,
                udp_target,
                tcp_target,
            };
            links.insert(link.id.clone(), directed);
            udp_fronts.push(udp);
            servers.spawn(tcp.serve());
        }
        let mut controls = BTreeMap::new();
        for control in config.controls {
            let link =
                |way| Arc::new(Link::new(&format!("{} {way}", control.point), LinkShape::default(), config.seed));
            let (up, down) = (link("control up"), link("control down"));
            let target = Arc::new(Mutex::new(control.target));
            let wish = SocketAddr::new(config.bind, control.port);
            let front = TcpFront::bind(wish, Arc::clone(&up), Arc::clone(&down), Arc::clone(&target), timer.clone())?;
            let bound = |source| EmulatorError::Bind { id: control.point.clone(), address: wish, source };
            let address = front.address().map_err(bound)?;
            controls.insert(control.point, Channel { home: control.home, up, down, address, target });
            servers.spawn(front.serve());
        }
        let udp = udp::receive(udp_fronts, timer.clone())?;
        let emulator = Self { timer, links, controls, change: Mutex::new(()), servers, _udp: udp, _release: release };
        emulator.route_controls();
        Ok(emulator)
    }

    /// Where to send datagrams that shall cross link `id`.
    pub fn udp_address(&self, id: &str) -> Result<SocketAddr, EmulatorError> {
        Ok(self.directed(id)?.udp_address)
    }

    /// Where to open connections that shall cross link `id`.
    pub fn tcp_address(&self, id: &str) -> Result<SocketAddr, EmulatorError> {
        Ok(self.directed(id)?.tcp_address)
    }

    /// Where the agent of `point` reaches the orchestrator; `None` if the point has no control channel.
    pub fn control_address(&self, point: &str) -> Option<SocketAddr> {
        self.controls.get(point).map(|channel| channel.address)
    }

    /// Changes a link's shape; answers the new one. What is on its way keeps its old delay.
    pub fn set(&self, id: &str, patch: ShapePatch) -> Result<LinkShape, EmulatorError> {
        let directed = self.directed(id)?;
        let _change = self.change.lock().unwrap_or_else(PoisonError::into_inner);
        let shape = patch.apply(directed.link.shape());
        shape.check(id)?;
        directed.link.set_shape(shape, self.timer.now());
        self.route_controls();
        Ok(shape)
    }

    /// Gives a link's datagrams these faults from now on.
    pub fn set_faults(&self, id: &str, faults: Faults) -> Result<(), EmulatorError> {
        faults.check(id)?;
        self.directed(id)?.link.set_faults(faults);
        Ok(())
    }

    /// Stops everything on a link: datagrams vanish, connections stall and are reset after a second, new ones are reset at
    /// once. Cutting a cut link changes nothing.
    pub fn cut(&self, id: &str) -> Result<(), EmulatorError> {
        self.set_cut(id, true)
    }

    /// Ends a cut.
    pub fn heal(&self, id: &str) -> Result<(), EmulatorError> {
        self.set_cut(id, false)
    }

    /// Points a link at other ports, for an agent that came back elsewhere. Open connections stay where they are.
    pub fn retarget(&self, id: &str, udp: SocketAddr, tcp: SocketAddr) -> Result<(), EmulatorError> {
        let directed = self.directed(id)?;
        *directed.udp_target.lock().unwrap_or_else(PoisonError::into_inner) = udp;
        *directed.tcp_target.lock().unwrap_or_else(PoisonError::into_inner) = tcp;
        Ok(())
    }

    /// Points every control channel at another address of the orchestrator.
    pub fn retarget_controls(&self, target: SocketAddr) {
        for channel in self.controls.values() {
            *channel.target.lock().unwrap_or_else(PoisonError::into_inner) = target;
        }
    }

    /// State and counts of everything, each in order of its name.
    pub fn snapshot(&self) -> Snapshot {
        let link = |(id, directed): (&String, &Directed)| LinkStatus {
            id: id.clone(),
            shape: directed.link.shape(),
            cut: directed.link.is_cut(),
            udp: directed.link.udp.read(),
            tcp: directed.link.tcp.read(),
        };
        let control = |(point, channel): (&String, &Channel)| ControlStatus {
            point: point.clone(),
            address: channel.address,
            up_latency_us: channel.up.shape().latency_us,
            down_latency_us: channel.down.shape().latency_us,
            cut: channel.up.is_cut() || channel.down.is_cut(),
        };
        Snapshot { links: self.links.iter().map(link).collect(), controls: self.controls.iter().map(control).collect() }
    }

    /// Ends every connection and waits until all ports are free.
    pub async fn stop(mut self) {
        self.servers.shutdown().await;
    }

    fn directed(&self, id: &str) -> Result<&Directed, EmulatorError> {
        self.links.get(id).ok_or_else(|| unknown(id, self.links.keys().map(String::as_str)))
    }

    fn set_cut(&self, id: &str, cut: bool) -> Result<(), EmulatorError> {
        let directed = self.directed(id)?;
        let _change = self.change.lock().unwrap_or_else(PoisonError::into_inner);
        directed.link.set_cut(cut);
        self.route_controls();
        Ok(())
    }

    fn route_controls(&self) {
        let whole = self.links.values().filter(|directed| !directed.link.is_cut());
        let hops: Vec<_> = whole
            .map(|directed| Hop {
                from: &directed.from,
                to: &directed.to,
                latency_us: directed.link.shape().latency_us,
            })
            .collect();
        for (point, channel) in &self.controls {
            follow(&channel.up, least_latency_us(&hops, point, &channel.home), self.timer.now());
            follow(&channel.down, least_latency_us(&hops, &channel.home, point), self.timer.now());
        }
    }
}

fn follow(way: &Link, latency_us: Option<u64>, now: u64) {
    if let Some(latency_us) = latency_us {
        way.set_shape(LinkShape::delay(latency_us), now);
    }
    way.set_cut(latency_us.is_none());
}
