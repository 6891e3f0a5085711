//! Holding devices and node capacity, and giving them back, exactly once each; links go with them.

use crate::{
    apply::{links, world::lock_points},
    codec::{Reader, bound, int, json},
    error::Fault,
    intent::{Conflict, Grant, Holder, ReplicaWant, Reservation},
    record::ReplicaHold,
    room::{self, NodeRoom},
    rows,
    session::{Row, Session, Value, args, placeholders},
};
use jiff::Timestamp;
use rhumb_model::{
    Bytes, Cores, Node, NodeName, Share, SiteName,
    fit::{self, NodeUse, Used},
};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

impl Holder {
    pub(super) fn key(self) -> (&'static str, Uuid) {
        match self {
            Self::Order(id) => ("order", id.0),
            Self::Quote(id) => ("quote", id.0),
        }
    }
}

/// Holds all of it under the holder's generation; a refusal leaves half of it to the caller's rollback.
pub async fn take(
    session: &mut Session<'_>,
    holder: Holder,
    generation: u64,
    reservation: &Reservation,
    at: Timestamp,
) -> Result<Vec<Grant>, Fault> {
    let draining = lock_points(session, reservation.replicas.iter().map(|w| &w.site)).await?;
    if let Some((site, _)) = draining.into_iter().find(|(_, draining)| *draining) {
        return Err(Conflict::Draining(site).into());
    }
    let holds = seat(session, holder, generation, &reservation.replicas).await?;
    insert_replicas(session, &holds).await?;
    links::take(session, holder, generation, &reservation.links, at).await?;
    Ok(holds.into_iter().map(grant).collect())
}

fn grant(hold: ReplicaHold) -> Grant {
    let ReplicaHold { component, replica, site, node, devices, .. } = hold;
    Grant { component, replica, site, node, devices }
}

/// Seats the replicas on what the sites have now, and counts them there.
async fn seat(
    session: &mut Session<'_>,
    holder: Holder,
    generation: u64,
    wants: &[ReplicaWant],
) -> Result<Vec<ReplicaHold>, Fault> {
    if wants.is_empty() {
        return Ok(Vec::new());
    }
    let sites: BTreeSet<&SiteName> = wants.iter().map(|w| &w.site).collect();
    let rooms = rooms(session, &sites).await?;
    let mut taken = Taken::default();
    let mut holds = Vec::with_capacity(wants.len());
    for seat in room::seat(wants, &rooms)? {
        let (want, at) = (&wants[seat.want], &rooms[seat.node]);
        let (share, device_memory) = fit::use_of(&want.need, &at.node, &seat.devices);
        let is_share = want.need.accelerators.as_ref().is_some_and(|a| a.share.is_some());
        let hold = ReplicaHold {
            holder,
            generation,
            component: want.component.clone(),
            replica: want.replica,
            site: want.site.clone(),
            node: at.node.name.clone(),
            devices: seat.devices,
            share: share.thousandths() as u16,
            device_memory_bytes: if is_share { device_memory.bytes() } else { 0 },
            cpu_milli: want.need.cpu.milli(),
            memory_bytes: want.need.memory.bytes(),
        };
        taken.count(&hold, Some(&at.node));
        holds.push(hold);
    }
    taken.add(session).await?;
    Ok(holds)
}

async fn rooms(session: &mut Session<'_>, sites: &BTreeSet<&SiteName>) -> Result<Vec<NodeRoom>, Fault> {
    let list = placeholders(1, sites.len());
    let names = || -> Vec<Value> { sites.iter().map(|s| s.as_str().into()).collect() };
    let sql =
        format!("SELECT site, node, device, used_permille, used_memory_bytes FROM device_use WHERE site IN {list}");
    let mut devices: BTreeMap<(SiteName, NodeName), BTreeMap<u32, Used>> = BTreeMap::new();
    for row in &session.all_built(sql, names()).await? {
        let r = Reader::new("device_use", row);
        let used = Used {
            share: Share::from_thousandths(r.count("used_permille")?),
            memory: Bytes::from_bytes(r.count("used_memory_bytes")?),
        };
        devices.entry((r.parsed("site")?, r.parsed("node")?)).or_default().insert(r.count("device")?, used);
    }
    let sql = format!(
        "SELECT site, body, cpu_used_milli, memory_used_bytes FROM nodes WHERE site IN {list} AND present = ${} \
         ORDER BY site, node",
        sites.len() + 1
    );
    let args = names().into_iter().chain([true.into()]).collect();
    let mut out = Vec::new();
    for row in &session.all_built(sql, args).await? {
        let r = Reader::new("nodes", row);
        let (site, node): (SiteName, Node) = (r.parsed("site")?, r.json("body")?);
        let used = NodeUse {
            cpu: Cores::from_milli(r.count("cpu_used_milli")?),
            memory: Bytes::from_bytes(r.count("memory_used_bytes")?),
            devices: devices.remove(&(site.clone(), node.name.clone())).unwrap_or_default(),
        };
        out.push(NodeRoom { site, node, used });
    }
    Ok(out)
}

async fn insert_replicas(session: &mut Session<'_>, holds: &[ReplicaHold]) -> Result<(), Fault> {
    let mut rows = Vec::with_capacity(holds.len());
    for h in holds {
        let (kind, id) = h.holder.key();
        rows.push(args![
            kind,
            id,
            int("generation", h.generation)?,
            h.component.as_str(),
            h.replica,
            h.site.as_str(),
            h.node.as_str(),
            json("devices", &h.devices)?,
            h.share,
            int("device memory", h.device_memory_bytes)?,
            int("cores", h.cpu_milli)?,
            int("memory", h.memory_bytes)?,
        ]);
    }
    let head = "INSERT INTO replica_holds (holder_kind, holder, generation, component, replica, site, node, devices, \
                share_permille, device_memory_bytes, cpu_milli, memory_bytes)";
    session.run_many(head, 12, rows, "").await?;
    Ok(())
}

/// What holds take of nodes and devices, summed, so that each row is touched once.
#[derive(Default)]
struct Taken {
    nodes: BTreeMap<(SiteName, NodeName), (u64, u64)>,
    /// Share in thousandths, memory taken, memory of the device.
    devices: BTreeMap<(SiteName, NodeName, u32), (u64, u64, u64)>,
}

impl Taken {
    /// `node` as it is now, where something is taken; not needed to give back.
    fn count(&mut self, hold: &ReplicaHold, node: Option<&Node>) {
        let key = (hold.site.clone(), hold.node.clone());
        let of_node = self.nodes.entry(key).or_default();
        of_node.0 += hold.cpu_milli;
        of_node.1 += hold.memory_bytes;
        for index in &hold.devices {
            let memory =
                node.and_then(|n| n.devices.iter().find(|d| d.index == *index)).map_or(0, |d| d.memory.bytes());
            let device = self.devices.entry((hold.site.clone(), hold.node.clone(), *index)).or_default();
            device.0 += u64::from(hold.share);
            device.1 += hold.device_memory_bytes;
            device.2 = memory;
        }
    }

    /// CHECKs and triggers refuse what the sums here would over-fill.
    async fn add(&self, session: &mut Session<'_>) -> Result<(), Fault> {
        self.change_nodes(session, 1).await?;
        let mut rows = Vec::with_capacity(self.devices.len());
        for ((site, node, index), (share, memory, total)) in &self.devices {
            rows.push(args![
                site.as_str(),
                node.as_str(),
                *index,
                int("device share", *share)?,
                int("device memory", *total)?,
                int("device memory", *memory)?,
            ]);
        }
        let head = "INSERT INTO device_use (site, node, device, used_permille, memory_bytes, used_memory_bytes)";
        let tail = "ON CONFLICT (site, node, device) DO UPDATE SET \
                    used_permille = device_use.used_permille + excluded.used_permille, \
                    memory_bytes = excluded.memory_bytes, \
                    used_memory_bytes = device_use.used_memory_bytes + excluded.used_memory_bytes";
        session.run_many(head, 6, rows, tail).await?;
        Ok(())
    }

    async fn give_back(&self, session: &mut Session<'_>) -> Result<(), Fault> {
        self.change_nodes(session, -1).await?;
        let rows = self.devices.iter().map(|((site, node, index), (share, memory, _))| {
            args![site.as_str(), node.as_str(), *index, bound(*share), bound(*memory)]
        });
        let head = "WITH v (site, node, device, share, memory) AS (";
        let tail = ") UPDATE device_use SET used_permille = used_permille - v.share, \
                    used_memory_bytes = used_memory_bytes - v.memory FROM v \
                    WHERE device_use.site = v.site AND device_use.node = v.node AND device_use.device = v.device";
        session.run_many(head, 5, rows.collect(), tail).await?;
        let sites: BTreeSet<&SiteName> = self.nodes.keys().map(|(site, _)| site).collect();
        for site in sites {
            let sql = "DELETE FROM device_use WHERE site = $1 AND used_permille = 0";
            session.run(sql, args![site.as_str()]).await?;
            let sql = "DELETE FROM nodes WHERE site = $1 AND present = $2 AND NOT EXISTS (SELECT 1 FROM replica_holds h \
                       WHERE h.site = nodes.site AND h.node = nodes.node)";
            session.run(sql, args![site.as_str(), false]).await?;
        }
        Ok(())
    }

    async fn change_nodes(&self, session: &mut Session<'_>, sign: i64) -> Result<(), Fault> {
        let mut rows = Vec::with_capacity(self.nodes.len());
        for ((site, node), (cpu, memory)) in &self.nodes {
            rows.push(args![site.as_str(), node.as_str(), sign * int("cores", *cpu)?, sign * int("memory", *memory)?,]);
        }
        let head = "WITH v (site, node, cpu, memory) AS (";
        let tail = ") UPDATE nodes SET cpu_used_milli = cpu_used_milli + v.cpu, \
                    memory_used_bytes = memory_used_bytes + v.memory FROM v \
                    WHERE nodes.site = v.site AND nodes.node = v.node";
        session.run_many(head, 4, rows, tail).await?;
        Ok(())
    }
}

/// Gives back what these generations hold. What was given back before is not there any more, so it counts once.
pub async fn release(
    session: &mut Session<'_>,
    holder: Holder,
    generations: &[u64],
    at: Timestamp,
) -> Result<(), Fault> {
    let generations: BTreeSet<u64> = generations.iter().copied().collect();
    for generation in generations {
        let generation = int("generation", generation)?;
        release_replicas(session, holder, generation).await?;
        links::release(session, holder, generation, at).await?;
    }
    Ok(())
}

async fn release_replicas(session: &mut Session<'_>, holder: Holder, generation: i64) -> Result<(), Fault> {
    let (kind, id) = holder.key();
    let sql = "SELECT DISTINCT site FROM replica_holds WHERE holder_kind = $1 AND holder = $2 AND generation = $3";
    let found = session.all(sql, args![kind, id, generation]).await?;
    let sites: Vec<SiteName> =
        found.iter().map(|row| Reader::new("replica_holds", row).parsed("site")).collect::<Result<_, _>>()?;
    if !sites.is_empty() {
        lock_points(session, sites.iter()).await?;
        let sql = "DELETE FROM replica_holds WHERE holder_kind = $1 AND holder = $2 AND generation = $3 RETURNING \
                   holder_kind, holder, generation, component, replica, site, node, devices, share_permille, \
                   device_memory_bytes, cpu_milli, memory_bytes";
        let mut taken = Taken::default();
        for row in &session.all(sql, args![kind, id, generation]).await? {
            taken.count(&rows::replica_hold(row)?, None);
        }
        taken.give_back(session).await?;
    }
    Ok(())
}

/// Everything of one holder's generation becomes another's, device for device.
pub async fn rekey(
    session: &mut Session<'_>,
    (from, old): (Holder, u64),
    (to, new): (Holder, u64),
) -> Result<Vec<Grant>, Fault> {
    let ((from_kind, from_id), (to_kind, to_id)) = (from.key(), to.key());
    let keys =
        || Ok::<_, Fault>(args![from_kind, from_id, int("generation", old)?, to_kind, to_id, int("generation", new)?]);
    let sql = "UPDATE replica_holds SET holder_kind = $4, holder = $5, generation = $6 \
               WHERE holder_kind = $1 AND holder = $2 AND generation = $3 RETURNING \
               holder_kind, holder, generation, component, replica, site, node, devices, share_permille, \
               device_memory_bytes, cpu_milli, memory_bytes";
    let found: Vec<Row> = session.all(sql, keys()?).await?;
    let mut grants: Vec<Grant> = found.iter().map(|r| rows::replica_hold(r).map(grant)).collect::<Result<_, _>>()?;
    grants.sort_by(|a, b| (&a.component, a.replica).cmp(&(&b.component, b.replica)));
    let sql = "UPDATE link_holds SET holder_kind = $4, holder = $5, generation = $6 \
               WHERE holder_kind = $1 AND holder = $2 AND generation = $3";
    session.run(sql, keys()?).await?;
    Ok(grants)
}
