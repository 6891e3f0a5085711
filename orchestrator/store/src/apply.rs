//! One intent on one connection, within a transaction that the caller undoes if it fails.
//!
//! Rows are locked in one order everywhere: order, then tenant, then quote, then sites (points) by name, then nodes and devices under
//! those, then links by id, then the numbers of tunnels. The point's row is the mutex of all that is held at the site.

mod admission;
mod enrolment;
mod hold;
mod key;
pub mod lead;
mod links;
mod log;
mod order;
mod quote;
mod tunnel;
mod window;
mod world;

use crate::{
    error::Fault,
    intent::{Intent, Outcome},
    session::Session,
};

pub async fn intent(session: &mut Session<'_>, intent: &Intent) -> Result<Outcome, Fault> {
    match intent {
        Intent::AcceptOrder { record, event, idempotency } => {
            order::admit(session, &record.tenant).await?;
            order::insert(session, record, std::slice::from_ref(event)).await?;
            key::answer(session, idempotency.as_ref()).await?;
            Ok(Outcome::Changed { version: record.version })
        }
        Intent::Reserve { order, generation, reservation, change } => {
            order::reserve(session, *order, *generation, reservation, change).await
        }
        Intent::Change(change) => {
            let changed = order::change(session, change).await?;
            Ok(Outcome::Changed { version: changed.version })
        }
        Intent::OfferQuote { record, reservation, idempotency } => {
            let outcome = quote::offer(session, record, reservation.as_ref()).await?;
            key::answer(session, idempotency.as_ref()).await?;
            Ok(outcome)
        }
        Intent::AcceptQuote { quote, at, record, events, idempotency } => {
            let outcome = quote::accept(session, *quote, *at, record, events).await?;
            key::answer(session, idempotency.as_ref()).await?;
            Ok(outcome)
        }
        Intent::Extend { order, generation, links, at } => {
            links::extend(session, *order, *generation, links, *at).await?;
            Ok(Outcome::Done)
        }
        Intent::TakeTunnels(want) => tunnel::take(session, want).await,
        Intent::FreeTunnels { order, generation, numbers } => {
            tunnel::sweep(session, *order, *generation, numbers).await?;
            Ok(Outcome::Done)
        }
        Intent::EndQuote { quote, at } => quote::end(session, *quote, *at).await,
        Intent::Configure { points, links } => world::configure(session, points, links).await,
        Intent::Inventory { site, nodes } => world::inventory(session, site, nodes).await,
        Intent::Heard { point, boot, seq, at } => world::heard(session, point, *boot, *seq, *at).await,
        Intent::Drain { site, draining } => world::drain(session, site, *draining).await,
        Intent::PutTenant(tenant) => admission::put_tenant(session, tenant).await,
        Intent::KnowTenant { name, at } => admission::know_tenant(session, name, *at).await,
        Intent::CloseTenant { name, at } => admission::close_tenant(session, name, *at).await,
        Intent::SetQuota { tenant, quota } => admission::set_quota(session, tenant, *quota).await,
        Intent::PutToken(token) => admission::put_token(session, token).await,
        Intent::RevokeToken { id, within, at } => admission::revoke_token(session, *id, within.as_ref(), *at).await,
        Intent::Administer { change, entry } => {
            let outcome = Box::pin(self::intent(session, change)).await?;
            admission::log(session, entry).await?;
            Ok(outcome)
        }
        Intent::PutAuthority(authority) => enrolment::put_authority(session, authority).await,
        Intent::RetireAuthority { fingerprint, at } => enrolment::retire_authority(session, fingerprint, *at).await,
        Intent::PutJoinToken(token) => enrolment::put_join_token(session, token).await,
        Intent::Enrol { token, certificate, at } => enrolment::enrol(session, token, certificate, *at).await,
        Intent::Renew { former, certificate } => enrolment::renew(session, former, certificate).await,
        Intent::Revoke { serial, at } => enrolment::revoke(session, serial, *at).await,
        Intent::AppendLogs(chunks) => log::append(session, chunks).await,
        Intent::KeepWindows(windows) => window::keep(session, windows).await,
        Intent::ForgetWindows { before } => window::forget(session, *before).await,
        Intent::Remember(record) => {
            key::remember(session, record).await?;
            Ok(Outcome::Done)
        }
        Intent::Forget { before, at } => {
            links::forget(session, *at).await?;
            enrolment::forget(session, *before).await?;
            key::forget(session, *before).await
        }
    }
}

/// Whether an intent may write events, which in PostgreSQL must be announced before (see `read::settled`).
pub fn writes_events(intent: &Intent) -> bool {
    match intent {
        Intent::AcceptOrder { .. } => true,
        Intent::Reserve { change, .. } | Intent::Change(change) => !change.events.is_empty(),
        Intent::AcceptQuote { events, .. } => !events.is_empty(),
        _ => false,
    }
}
