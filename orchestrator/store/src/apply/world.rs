//! Points, nodes and links: what configuration and agents say of them.

use crate::{
    codec::{Reader, int, json},
    error::Fault,
    intent::{Conflict, Outcome},
    record::{NodeRecord, PointRecord},
    session::{Session, args},
};
use jiff::Timestamp;
use rhumb_model::{Bandwidth, LinkId, SiteName, name::PointName};
use std::collections::BTreeMap;
use uuid::Uuid;

/// Draining and reports of a point that is known already stay as they are.
pub async fn configure(
    session: &mut Session<'_>,
    points: &[PointRecord],
    links: &[(LinkId, Bandwidth)],
) -> Result<Outcome, Fault> {
    let points: BTreeMap<_, _> = points.iter().map(|p| (p.name.as_str(), p.draining)).collect();
    let rows = points.into_iter().map(|(name, draining)| args![name, draining]).collect();
    session.run_many("INSERT INTO points (name, draining)", 2, rows, "ON CONFLICT (name) DO NOTHING").await?;
    let links: BTreeMap<_, _> = links.iter().map(|(id, capacity)| (id, *capacity)).collect();
    for (id, capacity) in links {
        let sql = "INSERT INTO links (id, capacity_kbps) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE \
                   SET capacity_kbps = excluded.capacity_kbps WHERE links.reserved_kbps + links.peak_kbps <= excluded.capacity_kbps";
        if session.run(sql, args![id.as_str(), int("link capacity", capacity.kbps())?]).await? == 0 {
            let row = session
                .first("SELECT reserved_kbps + peak_kbps AS reserved_kbps FROM links WHERE id = $1", args![id.as_str()])
                .await?;
            let reserved = row.as_ref().map_or(Ok(0), |r| Reader::new("links", r).count("reserved_kbps"))?;
            return Err(
                Conflict::Link { link: id.clone(), free: capacity, needed: Bandwidth::from_kbps(reserved) }.into()
            );
        }
    }
    Ok(Outcome::Done)
}

/// Locks the rows of these points, by name: whoever changes what is held at a site holds its row. Returns who drains.
pub async fn lock_points<'a>(
    session: &mut Session<'_>,
    names: impl Iterator<Item = &'a PointName>,
) -> Result<BTreeMap<PointName, bool>, Fault> {
    let names: std::collections::BTreeSet<&PointName> = names.collect();
    if names.is_empty() {
        return Ok(BTreeMap::new());
    }
    let list = crate::session::placeholders(1, names.len());
    let lock = session.dialect().lock();
    let sql = format!("SELECT name, draining FROM points WHERE name IN {list} ORDER BY name{lock}");
    let found = session.all_built(sql, names.iter().map(|n| n.as_str().into()).collect()).await?;
    let mut out = BTreeMap::new();
    for row in &found {
        let r = Reader::new("points", row);
        out.insert(r.parsed("name")?, r.flag("draining")?);
    }
    match names.into_iter().find(|n| !out.contains_key(*n)) {
        Some(unknown) => Err(Conflict::Missing(format!("site {unknown}")).into()),
        None => Ok(out),
    }
}

pub async fn inventory(session: &mut Session<'_>, site: &SiteName, nodes: &[NodeRecord]) -> Result<Outcome, Fault> {
    lock_points(session, std::iter::once(site)).await?;
    if let Some(stray) = nodes.iter().find(|n| &n.site != site) {
        return Err(Conflict::Missing(format!("node {} at site {site}", stray.node.name)).into());
    }
    let gone = "UPDATE nodes SET present = $2 WHERE site = $1 AND present = $3";
    session.run(gone, args![site.as_str(), false, true]).await?;
    let mut rows = Vec::with_capacity(nodes.len());
    // a node named twice counts once, as last said
    let nodes: BTreeMap<_, _> = nodes.iter().map(|n| (&n.node.name, &n.node)).collect();
    for (name, node) in nodes {
        rows.push(args![
            site.as_str(),
            name.as_str(),
            json("node", node)?,
            true,
            int("node cores", node.cpu.milli())?,
            int("node memory", node.memory.bytes())?,
        ]);
    }
    let head = "INSERT INTO nodes (site, node, body, present, cpu_milli, memory_bytes)";
    let tail = "ON CONFLICT (site, node) DO UPDATE SET body = excluded.body, present = excluded.present, \
                cpu_milli = excluded.cpu_milli, memory_bytes = excluded.memory_bytes";
    session.run_many(head, 6, rows, tail).await?;
    let unused = "DELETE FROM nodes WHERE site = $1 AND present = $2 AND NOT EXISTS (SELECT 1 FROM replica_holds h \
                  WHERE h.site = nodes.site AND h.node = nodes.node)";
    session.run(unused, args![site.as_str(), false]).await?;
    Ok(Outcome::Done)
}

pub async fn heard(
    session: &mut Session<'_>,
    point: &PointName,
    boot: Uuid,
    seq: u64,
    at: Timestamp,
) -> Result<Outcome, Fault> {
    let known = session.first("SELECT name FROM points WHERE name = $1", args![point.as_str()]).await?;
    if known.is_none() {
        return Err(Conflict::Missing(format!("point {point}")).into());
    }
    let sql = format!("SELECT boot FROM reports WHERE point = $1{}", session.dialect().lock());
    let last = session.all_built(sql, args![point.as_str()]).await?;
    let last = last.first().map(|row| Reader::new("reports", row).uuid("boot")).transpose()?;
    let sql = "INSERT INTO reports (point, boot, seq, heard_us) VALUES ($1, $2, $3, $4) ON CONFLICT (point) DO UPDATE \
               SET boot = excluded.boot, seq = excluded.seq, heard_us = excluded.heard_us \
               WHERE (reports.boot = excluded.boot AND reports.seq < excluded.seq) OR (reports.boot <> excluded.boot \
               AND NOT EXISTS (SELECT 1 FROM former_boots f WHERE f.point = excluded.point AND f.boot = excluded.boot))";
    let args = args![point.as_str(), boot, int("report number", seq)?, at.as_microsecond()];
    if session.run(sql, args).await? == 0 {
        return Err(Conflict::OldReport.into());
    }
    if let Some(last) = last.filter(|last| *last != boot) {
        let sql = "INSERT INTO former_boots (point, boot) VALUES ($1, $2) ON CONFLICT (point, boot) DO NOTHING";
        session.run(sql, args![point.as_str(), last]).await?;
    }
    Ok(Outcome::Done)
}

pub async fn drain(session: &mut Session<'_>, site: &SiteName, draining: bool) -> Result<Outcome, Fault> {
    let sql = "UPDATE points SET draining = $2 WHERE name = $1";
    match session.run(sql, args![site.as_str(), draining]).await? {
        0 => Err(Conflict::Missing(format!("site {site}")).into()),
        _ => Ok(Outcome::Done),
    }
}
