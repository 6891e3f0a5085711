//! `/v1/events`: what changes, as server-sent events; resumable by `Last-Event-ID`.

use crate::{
    auth::Principal,
    problem::Problem,
    router::App,
    views::{
        OrderView, links,
        site::{site, transit},
    },
};
use axum::{
    extract::State,
    http::HeaderMap,
    response::sse::{Event, KeepAlive, Sse},
};
use futures::Stream;
use rhumb_control::{Caller, DeskError, hub::Pulse};
use rhumb_model::OrderId;
use rhumb_store::{Holder, Store, TokenKind};
use std::{collections::BTreeSet, convert::Infallible, time::Duration};
use tokio::sync::{broadcast::error::RecvError, mpsc};
use tokio_stream::wrappers::ReceiverStream;

const FIGURES: Duration = Duration::from_secs(2);

/// `order`, `site` and `link` events; `event` carries an order's history, whose number is the stream's id.
#[utoipa::path(get, path = "/v1/events", tag = "events",
    params(("Last-Event-ID" = Option<String>, Header, description = "Resume after this event")),
    responses((status = 200, content_type = "text/event-stream", body = String), (status = 401, body = Problem)))]
pub async fn stream(
    State(app): State<App>,
    Principal(caller): Principal,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let last = headers.get("last-event-id").and_then(|v| v.to_str().ok()).and_then(|v| v.parse().ok());
    let from = match last {
        Some(seq) => seq,
        None => app.desk.store().last_event().await.map_err(DeskError::from)?,
    };
    // a slow reader is let go when its buffer is full, and resumes where it was
    let (sender, receiver) = mpsc::channel(256);
    tokio::spawn(feed(app, caller, from, sender));
    Ok(Sse::new(ReceiverStream::new(receiver)).keep_alive(KeepAlive::default()))
}

type Sender = mpsc::Sender<Result<Event, Infallible>>;

async fn feed(app: App, caller: Caller, mut from: u64, sender: Sender) {
    let mut pulses = app.desk.hub().pulse.subscribe();
    let mut figures = tokio::time::interval(FIGURES);
    let stop = app.desk.stopping();
    let mut catch_up = true;
    loop {
        if catch_up && !history(&app, &caller, &mut from, &sender).await {
            return;
        }
        catch_up = false;
        tokio::select! {
            () = stop.cancelled() => return,
            () = sender.closed() => return,
            _ = figures.tick() => if !send_figures(&app, &sender).await { return },
            pulse = pulses.recv() => match pulse {
                Ok(first) => {
                    // what changes in a burst is sent once
                    let mut burst = BTreeSet::new();
                    let mut sites = BTreeSet::new();
                    let mut next = Some(first);
                    while let Some(pulse) = next {
                        match pulse {
                            Pulse::Order(id) => { burst.insert(id); }
                            Pulse::Site(name) => { sites.insert(name); }
                        }
                        next = pulses.try_recv().ok();
                    }
                    for id in burst {
                        if !send_order(&app, &caller, id, &sender).await { return }
                    }
                    for name in sites {
                        if !send_site(&app, &caller, &name, &sender).await { return }
                    }
                    catch_up = true;
                }
                Err(RecvError::Lagged(_)) => catch_up = true,
                Err(RecvError::Closed) => return,
            },
        }
    }
}

/// False: the reader is gone.
async fn put(sender: &Sender, event: Result<Event, axum::Error>) -> bool {
    match event {
        Ok(event) => sender.send_timeout(Ok(event), Duration::from_secs(10)).await.is_ok(),
        Err(_) => true,
    }
}

async fn history(app: &App, caller: &Caller, from: &mut u64, sender: &Sender) -> bool {
    loop {
        let Ok(events) = app.desk.store().events_since(*from, 200).await else { return true };
        let full = events.len() == 200;
        for event in events {
            *from = event.seq;
            if caller.kind != TokenKind::Admin && event.tenant != caller.tenant {
                continue;
            }
            let id = event.seq.to_string();
            let view = crate::views::EventView::from(event);
            if !put(sender, Event::default().event("event").id(id).json_data(view)).await {
                return false;
            }
        }
        if !full {
            return true;
        }
    }
}

async fn send_order(app: &App, caller: &Caller, id: OrderId, sender: &Sender) -> bool {
    let Ok(record) = app.desk.order(caller, id).await else { return true };
    put(sender, Event::default().event("order").json_data(OrderView::new(record, &app.desk, None))).await
}

async fn send_site(app: &App, caller: &Caller, name: &rhumb_model::SiteName, sender: &Sender) -> bool {
    let store = app.desk.store();
    let (Ok(nodes), Ok(points), Ok(held)) = (store.nodes().await, store.points().await, store.holdings().await) else {
        return true;
    };
    let admin = caller.kind == TokenKind::Admin;
    let shown = move |holder: &Holder| match holder {
        Holder::Order(id) if admin => id.to_string(),
        Holder::Order(_) | Holder::Quote(_) => "held".to_owned(),
    };
    let event = match site(&app.desk, name, &nodes, &points, &held, &shown) {
        Some(view) => Event::default().event("site").json_data(view),
        None => match transit(&app.desk).into_iter().find(|t| t.name == name.as_str()) {
            Some(view) => Event::default().event("transit").json_data(view),
            None => return true,
        },
    };
    put(sender, event).await
}

async fn send_figures(app: &App, sender: &Sender) -> bool {
    let Ok(held) = app.desk.store().holdings().await else { return true };
    put(sender, Event::default().event("link").json_data(links(&app.desk, &held))).await
}
