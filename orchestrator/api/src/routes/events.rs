//! `/v1/events`: what changes, as server-sent events; resumable by `Last-Event-ID`.

use super::federation::shown;
use crate::{
    auth::{Principal, Session},
    problem::Problem,
    router::App,
    views::{
        EventView, OrderView, links,
        site::{site, transit},
    },
};
use axum::{
    extract::State,
    http::{HeaderMap, StatusCode},
    response::sse::{Event, KeepAlive, Sse},
};
use futures::Stream;
use rhumb_control::{Caller, DeskError, hub::Pulse};
use rhumb_model::{Action, OrderId, SiteName};
use rhumb_store::Store;
use std::{collections::BTreeSet, convert::Infallible, time::Duration};
use tokio::sync::{
    OwnedSemaphorePermit,
    broadcast::{Receiver, error::RecvError},
    mpsc,
};
use tokio_stream::wrappers::ReceiverStream;

/// How often figures of links are sent, and the history is looked at though nobody called: an event may be seen a moment
/// after its commit.
const FIGURES: Duration = Duration::from_secs(2);
/// A reader that takes nothing for this long, with its buffer full, is let go, and resumes where it was.
const SLOW: Duration = Duration::from_secs(10);
const BUFFER: usize = 256;
const PAGE: u32 = 200;

/// `order`, `site` and `link` events; `event` carries an order's history, whose number is the stream's id.
#[utoipa::path(get, path = "/v1/events", tag = "events",
    params(("Last-Event-ID" = Option<String>, Header, description = "Resume after this event")),
    responses((status = 200, content_type = "text/event-stream", body = String), (status = 400, body = Problem), (status = 401, body = Problem), (status = 403, body = Problem),
        (status = 503, body = Problem)))]
pub async fn stream(
    State(app): State<App>,
    principal: Principal,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let session = principal.session(Action::ReadFederation)?;
    let newest = app.desk.store().last_event().await.map_err(DeskError::from)?;
    let from = match headers.get("last-event-id").map(|v| v.to_str().unwrap_or("?").trim()) {
        None | Some("") => newest,
        // a number that was not given out yet is another database's
        Some(text) => text.parse::<u64>().map_err(|_| not_an_id())?.min(newest),
    };
    let place = app.streams.clone().try_acquire_owned().map_err(|_| too_many())?;
    let (sender, receiver) = mpsc::channel(BUFFER);
    let feed = Feed { app, caller: session.caller.clone(), from, sender, _place: place };
    tokio::spawn(feed.run(session));
    Ok(Sse::new(ReceiverStream::new(receiver)).keep_alive(KeepAlive::default()))
}

fn not_an_id() -> Problem {
    Problem::bad_request("the Last-Event-ID header is not the id of an event")
}

fn too_many() -> Problem {
    let detail = "all places for streams of events are taken: read the lists instead, or come back";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "busy", "Too much is asked at once", detail).retry_after(5)
}

/// The reader is gone, or too slow.
struct Gone;

struct Feed {
    app: App,
    caller: Caller,
    /// The last event of the history that was sent, or is not this reader's.
    from: u64,
    sender: mpsc::Sender<Result<Event, Infallible>>,
    _place: OwnedSemaphorePermit,
}

impl Feed {
    async fn run(mut self, session: Session) {
        let stop = self.app.desk.stopping();
        let gone = self.sender.clone();
        let app = self.app.clone();
        let now = self.app.desk.now();
        let left = session.expires.map(|at| at.duration_since(now).try_into().unwrap_or(Duration::ZERO));
        let over = async move {
            match left {
                Some(left) => tokio::time::sleep(left).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = gone.closed() => {}
            // who is no longer known is no longer told
            () = over => {}
            () = session.revoked(&app) => {}
            _ = self.feed() => {}
        }
    }

    async fn feed(&mut self) -> Result<(), Gone> {
        let mut pulses = self.app.desk.hub().pulse.subscribe();
        let mut figures = tokio::time::interval(FIGURES);
        let (mut orders, mut sites) = (BTreeSet::new(), BTreeSet::new());
        loop {
            self.history(&mut orders).await?;
            for id in std::mem::take(&mut orders) {
                self.order(id).await?;
            }
            for name in std::mem::take(&mut sites) {
                self.site(&name).await?;
            }
            tokio::select! {
                _ = figures.tick() => self.figures().await?,
                pulse = pulses.recv() => match pulse {
                    // what changes in a burst is sent once
                    Ok(first) => gather(first, &mut pulses, &mut orders, &mut sites),
                    // the history tells which orders those were
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return Ok(()),
                },
            }
        }
    }

    async fn put(&self, event: Result<Event, axum::Error>) -> Result<(), Gone> {
        match event {
            Ok(event) => self.sender.send_timeout(Ok(event), SLOW).await.map_err(|_| Gone),
            Err(error) => {
                tracing::error!(%error, "an event could not be written");
                Ok(())
            }
        }
    }

    /// Everything after the last one sent. Where the store does not answer, the next look goes on there.
    async fn history(&mut self, orders: &mut BTreeSet<OrderId>) -> Result<(), Gone> {
        loop {
            let Ok(events) = self.app.desk.store().events_since(self.from, PAGE).await else { return Ok(()) };
            let full = events.len() == PAGE as usize;
            for event in events {
                let seq = event.seq;
                if self.caller.sees(&event.tenant) {
                    orders.insert(event.order);
                    let view = EventView::from(event);
                    self.put(Event::default().event("event").id(seq.to_string()).json_data(view)).await?;
                }
                self.from = seq;
            }
            if !full {
                return Ok(());
            }
        }
    }

    async fn order(&self, id: OrderId) -> Result<(), Gone> {
        if self.caller.may(Action::ReadWork).is_err() || self.app.desk.is_anothers(&self.caller, id) {
            return Ok(());
        }
        let Ok(record) = self.app.desk.order(&self.caller, id).await else { return Ok(()) };
        self.put(Event::default().event("order").json_data(OrderView::new(record, &self.app.desk, None))).await
    }

    async fn site(&self, name: &SiteName) -> Result<(), Gone> {
        let store = self.app.desk.store();
        let Ok((nodes, points, held)) = tokio::try_join!(store.nodes(), store.points(), store.holdings()) else {
            return Ok(());
        };
        let shown = shown(&self.app, &self.caller);
        if let Some(view) = site(&self.app.desk, name, &nodes, &points, &held, &shown) {
            return self.put(Event::default().event("site").json_data(view)).await;
        }
        match transit(&self.app.desk).into_iter().find(|t| t.name == name.as_str()) {
            Some(view) => self.put(Event::default().event("transit").json_data(view)).await,
            None => Ok(()),
        }
    }

    async fn figures(&self) -> Result<(), Gone> {
        let Ok(held) = self.app.desk.store().holdings().await else { return Ok(()) };
        self.put(Event::default().event("link").json_data(links(&self.app.desk, &held))).await
    }
}

fn gather(first: Pulse, pulses: &mut Receiver<Pulse>, orders: &mut BTreeSet<OrderId>, sites: &mut BTreeSet<SiteName>) {
    let mut next = Some(first);
    while let Some(pulse) = next {
        match pulse {
            Pulse::Order(id) => {
                orders.insert(id);
            }
            Pulse::Site(name) => {
                sites.insert(name);
            }
        }
        next = pulses.try_recv().ok();
    }
}
