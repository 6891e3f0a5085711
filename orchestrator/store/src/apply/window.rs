//! What probes said of links, window by window.

use crate::{
    codec::int,
    error::Fault,
    intent::Outcome,
    record::LinkWindow,
    session::{Session, Value, args},
};
use jiff::Timestamp;
use rhumb_model::Latency;

/// A window that is there already stays as it is; one of an unknown link is left out: configuration may have dropped the link
/// since.
pub async fn keep(session: &mut Session<'_>, windows: &[LinkWindow]) -> Result<Outcome, Fault> {
    let known = session.all("SELECT id FROM links", vec![]).await?;
    let known =
        known.iter().map(|row| row.get::<String>("id")).collect::<Result<std::collections::BTreeSet<_>, _>>()?;
    let us = |latency: Latency| int("a round trip", latency.micros());
    let mut rows: Vec<Vec<Value>> = Vec::with_capacity(windows.len());
    for window in windows.iter().filter(|w| known.contains(w.link.as_str())) {
        let rtt = |of: fn(&crate::WindowRtt) -> Latency| window.rtt.as_ref().map(|rtt| us(of(rtt))).transpose();
        rows.push(args![
            window.link.as_str(),
            window.at.as_microsecond(),
            int("a window", window.length.micros())?,
            int("probes sent", window.sent)?,
            int("probes received", window.received)?,
            rtt(|r| r.min)?,
            rtt(|r| r.p50)?,
            rtt(|r| r.p95)?,
            rtt(|r| r.p99)?,
            window.loss.map(|loss| int("a loss", loss.ppm())).transpose()?,
            window.record.as_str(),
        ]);
    }
    if !rows.is_empty() {
        // the first row tells PostgreSQL what the columns are, nulls too: `Value::Int` binds a typed one
        let head = "INSERT INTO link_windows (link, at_us, window_us, sent, received, rtt_min_us, rtt_p50_us, rtt_p95_us, \
                    rtt_p99_us, loss_ppm, record)";
        session.run_many(head, 11, rows, "ON CONFLICT (link, at_us) DO NOTHING").await?;
    }
    Ok(Outcome::Done)
}

pub async fn forget(session: &mut Session<'_>, before: Timestamp) -> Result<Outcome, Fault> {
    session.run("DELETE FROM link_windows WHERE at_us < $1", args![before.as_microsecond()]).await?;
    Ok(Outcome::Done)
}
