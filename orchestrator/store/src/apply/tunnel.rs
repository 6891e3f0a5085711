//! Numbers of tunnels: each is one path's at a time, whoever asks at the same moment.

use crate::{
    codec::{Reader, int, json},
    error::Fault,
    intent::{Conflict, Outcome, TunnelWant},
    session::{Dialect, Session, args, placeholders},
};
use rhumb_model::{OrderId, OrderState};
use std::collections::BTreeSet;

/// Placeholders in one statement.
const MANY: usize = 400;

/// The lowest free numbers; those that the path has already, if it has any.
pub async fn take(session: &mut Session<'_>, want: &TunnelWant) -> Result<Outcome, Fault> {
    is_current(session, want).await?;
    if session.dialect() == Dialect::Postgres {
        // one taker at a time sees what is free; SQLite has one writer anyway
        session.plain("SELECT pg_advisory_xact_lock(5931000000000000000)").await?;
    }
    let held = own(session, want).await?;
    let fits = |n: &u32| (want.from..=want.to).contains(n);
    if held.len() == want.count as usize && held.iter().all(fits) {
        return Ok(Outcome::Numbered(held));
    }
    free(session, want.order, want.generation, &held).await?;
    let numbers = lowest(want, &taken(session, want).await?)?;
    let points = json("points", &want.points)?;
    let mut rows = Vec::with_capacity(numbers.len());
    for (hop, number) in (0_u32..).zip(&numbers) {
        let generation = int("generation", want.generation)?;
        rows.push(args![*number, want.order.0, generation, want.leg, want.path, hop, points.as_str()]);
    }
    let head = "INSERT INTO tunnels (number, order_id, generation, leg, path, hop, points)";
    session.run_many(head, 7, rows, "").await?;
    Ok(Outcome::Numbered(numbers))
}

/// What ends at the same time must not leave numbers behind: its row stays as it is until these are stored.
async fn is_current(session: &mut Session<'_>, want: &TunnelWant) -> Result<(), Fault> {
    let sql = format!("SELECT state, generation, version FROM orders WHERE id = $1{}", session.dialect().lock());
    let row = session.all_built(sql, args![want.order.0]).await?.into_iter().next();
    let Some(row) = row else { return Err(Conflict::Missing(format!("order {}", want.order)).into()) };
    let r = Reader::new("orders", &row);
    if r.parsed::<OrderState>("state")?.is_final() {
        return Err(Conflict::Final(want.order).into());
    }
    if r.count::<u64>("generation")? != want.generation {
        return Err(Conflict::Version(want.order, r.int("version")?).into());
    }
    Ok(())
}

async fn own(session: &mut Session<'_>, want: &TunnelWant) -> Result<Vec<u32>, Fault> {
    let sql =
        "SELECT number FROM tunnels WHERE order_id = $1 AND generation = $2 AND leg = $3 AND path = $4 ORDER BY hop";
    let args = args![want.order.0, int("generation", want.generation)?, want.leg, want.path];
    session.all(sql, args).await?.iter().map(|row| Reader::new("tunnels", row).count("number")).collect()
}

async fn taken(session: &mut Session<'_>, want: &TunnelWant) -> Result<BTreeSet<u32>, Fault> {
    let sql = "SELECT number FROM tunnels WHERE number BETWEEN $1 AND $2";
    let found = session.all(sql, args![want.from, want.to]).await?;
    found.iter().map(|row| Reader::new("tunnels", row).count("number")).collect()
}

fn lowest(want: &TunnelWant, taken: &BTreeSet<u32>) -> Result<Vec<u32>, Conflict> {
    let free = (want.from..=want.to).filter(|n| !taken.contains(n));
    let numbers: Vec<u32> = free.take(want.count as usize).collect();
    if numbers.len() < want.count as usize {
        let free = u32::try_from(numbers.len()).unwrap_or(want.count);
        return Err(Conflict::Tunnels { from: want.from, to: want.to, free, needed: want.count });
    }
    Ok(numbers)
}

/// Gives numbers back that are the generation's; what is another's by now stays its.
pub async fn free(session: &mut Session<'_>, order: OrderId, generation: u64, numbers: &[u32]) -> Result<(), Fault> {
    for some in numbers.chunks(MANY) {
        let list = placeholders(1, some.len());
        let sql = format!(
            "DELETE FROM tunnels WHERE number IN {list} AND order_id = ${} AND generation = ${}",
            some.len() + 1,
            some.len() + 2
        );
        let mut args: Vec<_> = some.iter().map(|n| (*n).into()).collect();
        args.extend(args![order.0, int("generation", generation)?]);
        session.all_built(sql, args).await?;
    }
    Ok(())
}

/// The same, where the generation has ended: whoever leads no more takes nothing from who does.
pub async fn sweep(session: &mut Session<'_>, order: OrderId, generation: u64, numbers: &[u32]) -> Result<(), Fault> {
    let sql = format!("SELECT state, generation FROM orders WHERE id = $1{}", session.dialect().lock());
    let Some(row) = session.all_built(sql, args![order.0]).await?.into_iter().next() else { return Ok(()) };
    let r = Reader::new("orders", &row);
    if r.parsed::<OrderState>("state")?.is_final() || r.count::<u64>("generation")? > generation {
        free(session, order, generation, numbers).await?;
    }
    Ok(())
}

/// Gives back all of a generation's, but for those of which something may be left.
pub async fn release(session: &mut Session<'_>, order: OrderId, generation: u64, keep: &[u32]) -> Result<(), Fault> {
    let sql = "SELECT number FROM tunnels WHERE order_id = $1 AND generation = $2";
    let found = session.all(sql, args![order.0, int("generation", generation)?]).await?;
    let held: Vec<u32> =
        found.iter().map(|row| Reader::new("tunnels", row).count("number")).collect::<Result<_, _>>()?;
    let back: Vec<u32> = held.into_iter().filter(|n| !keep.contains(n)).collect();
    free(session, order, generation, &back).await
}
