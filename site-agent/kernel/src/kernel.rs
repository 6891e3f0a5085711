//! The kernel of this network namespace: read, changed, and read again.

use crate::{
    KernelError,
    diff::{Operation, diff},
    intent::{Intent, Refusal, Uplink},
    netlink::{ClassCounts, Gates, Seen, Socket, addresses, links, routes, rules, shapers},
    object::{Object, Objects},
    owner::Owner,
    vni::VniRange,
    wanted::{Wanted, wanted},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    net::IpAddr,
};

/// Where this driver's objects are made. Dropped, it leaves them as they are.
#[derive(Debug)]
pub struct Kernel {
    socket: Socket,
    pool: Option<VniRange>,
    /// As last read, and what was done since; `None`: to be read.
    known: Option<Objects>,
    /// Index of every link, this driver's and others'.
    indices: BTreeMap<String, u32>,
    mtus: BTreeMap<u32, (String, u32)>,
    /// Ways to underlay addresses, as asked since the last reading.
    uplinks: BTreeMap<IpAddr, Option<Uplink>>,
}

/// What came of stating the legs that there should be.
#[derive(Debug, Default)]
pub struct Applied {
    /// Cannot be built, by their own fault.
    pub refused: BTreeMap<Owner, Refusal>,
    /// The kernel did not do it; it will be tried again.
    pub failed: BTreeMap<Owner, String>,
    /// The same, of objects that are nobody's any more.
    pub stuck: Vec<String>,
    /// Changes made.
    pub changes: usize,
}

/// What passed through one tunnel of a leg, in octets and packets of frames inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    pub received_bytes: u64,
    pub received_packets: u64,
    pub sent_bytes: u64,
    pub sent_packets: u64,
    /// Did not fit into the shaper's queue.
    pub dropped_packets: u64,
    /// Waits in the queue now.
    pub waiting_bytes: u64,
}

impl Kernel {
    /// Of the calling thread's network namespace. Needs a tokio runtime with I/O, and CAP_NET_ADMIN for changes. Only numbers
    /// of `pool` are used; `None`: any.
    pub fn open(pool: Option<VniRange>) -> Result<Self, KernelError> {
        let (connection, handle, _) = rtnetlink::new_connection().map_err(KernelError::Open)?;
        tokio::spawn(connection);
        let (indices, mtus, uplinks) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Ok(Self { socket: Socket(handle), pool, known: None, indices, mtus, uplinks })
    }

    /// Whether this host passes packets on at all, and those with segments too. Settings of the whole host are not this
    /// driver's to change.
    pub fn check(segments: bool) -> Result<(), KernelError> {
        let on = |path: &str| fs::read_to_string(format!("/proc/sys/{path}")).is_ok_and(|text| text.trim() != "0");
        let need = |path: &str, why| {
            if on(path) { Ok(()) } else { Err(KernelError::Setting { setting: path.replace('/', "."), why }) }
        };
        need("net/ipv4/ip_forward", "networks behind this point cannot use routes")?;
        if segments {
            need("net/ipv6/conf/all/forwarding", "this point cannot pass on what has a list of segments")?;
            need("net/ipv6/conf/all/seg6_enabled", "what has a list of segments is dropped")?;
            let links = fs::read_dir("/proc/sys/net/ipv6/conf").into_iter().flatten().flatten();
            let names = links.filter_map(|entry| entry.file_name().into_string().ok());
            let mut links = names.filter(|name| !["all", "default", "lo"].contains(&name.as_str()));
            if !links.any(|name| on(&format!("net/ipv6/conf/{name}/seg6_enabled"))) {
                let setting = "net.ipv6.conf.UPLINK.seg6_enabled".to_owned();
                return Err(KernelError::Setting { setting, why: "what has a list of segments is dropped" });
            }
        }
        Ok(())
    }

    /// All that bears this driver's mark.
    pub async fn observe(&mut self) -> Result<&Objects, KernelError> {
        let failed = |what: &'static str| move |source| KernelError::Refused { what: what.to_owned(), source };
        let seen = links(&mut self.socket).await.map_err(failed("read the links"))?;
        let names: BTreeMap<u32, String> = seen.iter().map(|link| (link.index, link.name.clone())).collect();
        let own = own_names(&seen);
        self.indices = seen.iter().map(|link| (link.name.clone(), link.index)).collect();
        self.mtus = seen.iter().map(|link| (link.index, (link.name.clone(), link.mtu))).collect();
        self.uplinks.clear();
        let mut all: Objects = seen.into_iter().filter_map(|link| link.own).map(Object::Link).collect();
        let found = addresses(&mut self.socket, &own).await.map_err(failed("read the addresses"))?;
        all.extend(found.into_iter().map(Object::Address));
        let found = shapers(&mut self.socket, &own).await.map_err(failed("read the shapers"))?;
        all.extend(found.into_iter().map(|(shaper, _)| Object::Shaper(shaper)));
        let found = routes(&mut self.socket, &names).await.map_err(failed("read the routes"))?;
        all.extend(found.into_iter().map(Object::Route));
        let found = rules(&mut self.socket).await.map_err(failed("read the rules"))?;
        all.extend(found.into_iter().map(Object::Rule));
        all.extend(Gates::read().await?);
        Ok(self.known.insert(all))
    }

    /// Forgets what was read: the next plan looks again.
    pub fn look_again(&mut self) {
        self.known = None;
    }

    /// What there should be for `legs`, and what is to be done about it.
    pub async fn plan(&mut self, legs: &[Intent]) -> Result<(Wanted, Vec<Operation>), KernelError> {
        if self.known.is_none() {
            self.observe().await?;
        }
        let hops: BTreeSet<IpAddr> =
            legs.iter().flat_map(|leg| leg.tunnels().into_iter().map(crate::intent::Tunnel::first_hop)).collect();
        for hop in hops {
            if !self.uplinks.contains_key(&hop) {
                let index = self.socket.uplink(hop).await;
                let found = index.and_then(|index| self.mtus.get(&index).cloned());
                self.uplinks.insert(hop, found.map(|(device, mtu)| Uplink { device, mtu }));
            }
        }
        let wanted = wanted(legs, self.pool, |hop| self.uplinks.get(hop).cloned().flatten());
        let none = Objects::new();
        let operations = diff(self.known.as_ref().unwrap_or(&none), &wanted.objects);
        Ok((wanted, operations))
    }

    /// Makes everything of this driver what `legs` say. The same again changes nothing.
    pub async fn apply(&mut self, legs: &[Intent]) -> Result<Applied, KernelError> {
        let mut applied = self.round(legs).await?;
        if !applied.failed.is_empty() || !applied.stuck.is_empty() {
            // somebody else may have been at work: once more, on what is really there
            self.look_again();
            let first = applied.changes;
            applied = self.round(legs).await?;
            applied.changes += first;
            if !applied.failed.is_empty() || !applied.stuck.is_empty() {
                self.look_again();
            }
        }
        Ok(applied)
    }

    /// Removes all that bears this driver's mark.
    pub async fn clear(&mut self) -> Result<Applied, KernelError> {
        self.look_again();
        self.apply(&[]).await
    }

    async fn round(&mut self, legs: &[Intent]) -> Result<Applied, KernelError> {
        let (wanted, operations) = self.plan(legs).await?;
        let mut applied = Applied { refused: wanted.refused.clone(), ..Applied::default() };
        let mut rest = operations.as_slice();
        while let Some(first) = rest.first() {
            // gates are changed in one go, and links removed in one, as far as they follow each other
            let alike = |operation: &&Operation| batch(operation).is_some() && batch(operation) == batch(first);
            let many = rest.iter().take_while(alike).count().max(1);
            let (now, then) = rest.split_at(many);
            rest = then;
            let owners = wanted.owners.get(first.object());
            let hopeless = owners.is_some_and(|owners| owners.iter().all(|owner| applied.failed.contains_key(owner)));
            if now.len() == 1 && hopeless && !matches!(first, Operation::Delete(_)) {
                continue;
            }
            if self.perform(now).await.is_ok() {
                applied.changes += now.len();
                continue;
            }
            // one by one, so that one that cannot be made does not keep the others
            for operation in now {
                match self.perform(std::slice::from_ref(operation)).await {
                    Ok(()) => applied.changes += 1,
                    Err(error) => match wanted.owners.get(operation.object()) {
                        Some(owners) if !matches!(operation, Operation::Delete(_)) => {
                            for owner in owners {
                                applied.failed.entry(*owner).or_insert_with(|| error.shown());
                            }
                        }
                        _ => applied.stuck.push(error.shown()),
                    },
                }
            }
        }
        Ok(applied)
    }

    /// Does some operations of a plan: of those that go together all or nothing, others one after the other.
    pub async fn perform(&mut self, operations: &[Operation]) -> Result<(), KernelError> {
        if operations.is_empty() {
            return Ok(());
        }
        if operations.iter().all(|operation| batch(operation) == Some(Batch::Gates)) {
            let mut gates = Gates::default();
            for operation in operations {
                match operation {
                    Operation::Create(Object::Gates) => gates.make_table(),
                    Operation::Delete(Object::Gates) => gates.remove_table(),
                    Operation::Create(Object::Gate(gate)) => gates.put(None, gate),
                    Operation::Change { from: Object::Gate(from), to: Object::Gate(to) } => gates.put(Some(from), to),
                    Operation::Delete(Object::Gate(gate)) => gates.remove(gate),
                    _ => {}
                }
            }
            if !gates.is_empty() {
                gates.commit().await?;
            }
        } else if operations.iter().all(|operation| batch(operation) == Some(Batch::Links)) {
            let names = operations.iter().filter_map(|operation| match operation.object() {
                Object::Link(link) => Some(&link.name),
                _ => None,
            });
            let indices: Vec<u32> = names.filter_map(|name| self.indices.get(name)).copied().collect();
            let failed = |source| KernelError::Refused { what: shown(&operations[0]), source };
            self.socket.delete_links(&indices).await.map_err(failed)?;
        } else {
            for operation in operations {
                self.one(operation).await.map_err(|source| KernelError::Refused { what: shown(operation), source })?;
            }
        }
        for operation in operations {
            self.remember(operation);
        }
        Ok(())
    }

    async fn one(&mut self, operation: &Operation) -> io::Result<()> {
        let socket = &mut self.socket;
        let index = |name: &str| self.indices.get(name).copied().ok_or_else(|| io::Error::from_raw_os_error(NO_DEVICE));
        match operation {
            Operation::Create(Object::Link(link)) => {
                let index = socket.add_link(link).await?;
                self.indices.insert(link.name.clone(), index);
                Ok(())
            }
            Operation::Change { to: Object::Link(link), .. } => socket.set_link(index(&link.name)?, link).await,
            Operation::Delete(Object::Link(link)) => match index(&link.name) {
                Ok(index) => socket.delete_links(&[index]).await,
                Err(_) => Ok(()),
            },
            Operation::Create(Object::Address(address)) => socket.add_address(index(&address.link)?, address).await,
            Operation::Delete(Object::Address(address)) => match index(&address.link) {
                Ok(index) => socket.delete_address(index, address).await,
                Err(_) => Ok(()),
            },
            Operation::Create(Object::Shaper(shaper)) | Operation::Change { to: Object::Shaper(shaper), .. } => {
                socket.put_shaper(index(&shaper.link)?, shaper).await
            }
            Operation::Delete(Object::Shaper(shaper)) => match index(&shaper.link) {
                Ok(index) => socket.delete_shaper(index).await,
                Err(_) => Ok(()),
            },
            Operation::Create(Object::Route(route)) | Operation::Change { to: Object::Route(route), .. } => {
                let out = route.link.as_deref().map(index).transpose()?;
                socket.put_route(route, out).await
            }
            Operation::Delete(Object::Route(route)) => socket.delete_route(route).await,
            Operation::Create(Object::Rule(rule)) => socket.add_rule(rule).await,
            Operation::Delete(Object::Rule(rule)) => socket.delete_rule(rule).await,
            // done with the gates, or of a kind that is never changed
            Operation::Create(_) | Operation::Change { .. } | Operation::Delete(_) => Ok(()),
        }
    }

    fn remember(&mut self, operation: &Operation) {
        let Some(known) = &mut self.known else { return };
        match operation {
            Operation::Create(object) => drop(known.insert(object.clone())),
            Operation::Change { from, to } => {
                known.remove(from);
                known.insert(to.clone());
            }
            Operation::Delete(object) => {
                known.remove(object);
                if let Object::Link(link) = object {
                    known.retain(|other| other.rides() != Some(link.name.as_str()));
                    self.indices.remove(&link.name);
                }
            }
        }
    }

    /// What passed through each leg's tunnels since they were made, by the tunnel's number.
    pub async fn counters(&mut self) -> Result<BTreeMap<Owner, BTreeMap<u32, Counters>>, KernelError> {
        let failed = |source| KernelError::Refused { what: "read counters".to_owned(), source };
        let seen = links(&mut self.socket).await.map_err(failed)?;
        let shaped = shapers(&mut self.socket, &own_names(&seen)).await.map_err(failed)?;
        let shaped: BTreeMap<String, ClassCounts> =
            shaped.into_iter().map(|(shaper, counts)| (shaper.link, counts)).collect();
        let mut all: BTreeMap<Owner, BTreeMap<u32, Counters>> = BTreeMap::new();
        for link in seen {
            let Some((own, owner)) = link.own.and_then(|own| Some((own.clone(), own.owner?))) else { continue };
            let class = shaped.get(&own.name).copied().unwrap_or_default();
            let counters = Counters {
                received_bytes: link.received.0,
                received_packets: link.received.1,
                // what left the shaper: a link counts what its shaper dropped too
                sent_bytes: class.octets,
                sent_packets: class.packets,
                dropped_packets: class.dropped,
                waiting_bytes: class.waiting,
            };
            all.entry(owner).or_default().insert(own.vni, counters);
        }
        Ok(all)
    }
}

/// `ENODEV`
const NO_DEVICE: i32 = 19;

fn own_names(seen: &[Seen]) -> BTreeMap<u32, String> {
    seen.iter().filter(|link| link.own.is_some()).map(|link| (link.index, link.name.clone())).collect()
}

/// What the kernel does in one go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Batch {
    Gates,
    Links,
}

fn batch(operation: &Operation) -> Option<Batch> {
    match operation {
        Operation::Delete(Object::Link(_)) => Some(Batch::Links),
        _ if matches!(operation.object(), Object::Gates | Object::Gate(_)) => Some(Batch::Gates),
        _ => None,
    }
}

fn shown(operation: &Operation) -> String {
    let verb = match operation {
        Operation::Create(_) => "make",
        Operation::Change { .. } => "change",
        Operation::Delete(_) => "remove",
    };
    let what = match operation.object() {
        Object::Gates => "the table of allow-lists".to_owned(),
        Object::Gate(gate) => format!("the allow-list of {}", gate.link),
        Object::Link(link) => format!("the tunnel {} from {} to {}", link.name, link.local, link.remote),
        Object::Address(address) => format!("the address {}/{} on {}", address.address, address.prefix, address.link),
        Object::Shaper(shaper) => format!("the shaper of {}", shaper.link),
        Object::Route(route) => format!("the route to {} in table {}", route.destination, route.table),
        Object::Rule(rule) => format!("the rule {} for table {}", rule.priority, rule.table),
    };
    format!("{verb} {what}")
}
