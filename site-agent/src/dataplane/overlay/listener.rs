//! Where neighbours connect.

use super::{
    admission,
    context::Context,
    frame::GREETING_BYTES_MAX,
    hop::{Hop, Lost},
    table::Table,
};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{sleep, timeout},
};

/// Rest after a failed accept: out of descriptors passes, but not within microseconds.
const ACCEPT_REST: Duration = Duration::from_millis(50);

/// Accepts until dropped. Whoever does not belong to a route here is closed without a word, and counted.
pub(crate) async fn run(context: Arc<Context>, table: Arc<Table>, listener: TcpListener) {
    let room = Arc::new(Semaphore::new(context.limits.greetings));
    loop {
        // callers beyond the limit wait in the kernel's queue
        let Ok(place) = Arc::clone(&room).acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!(%error, "cannot accept a neighbour");
                sleep(ACCEPT_REST).await;
                continue;
            }
        };
        let (context_then, table) = (Arc::clone(&context), Arc::clone(&table));
        context.tasks.spawn(async move {
            let admitted = timeout(context_then.limits.greeting, admit(&context_then, &table, stream));
            let refused = tokio::select! {
                () = context_then.stop.cancelled() => None,
                admitted = admitted => match admitted {
                    Ok(Ok(())) => None,
                    Ok(Err(lost)) => Some(lost.to_string()),
                    Err(_) => Some("its greeting took too long".to_owned()),
                },
            };
            if let Some(why) = refused {
                context_then.refused.fetch_add(1, Ordering::Relaxed);
                tracing::debug!(why, "overlay connection refused");
            }
            drop(place);
        });
    }
}

async fn admit(context: &Context, table: &Table, stream: TcpStream) -> Result<(), Lost> {
    let mut hop = Hop::new(stream, GREETING_BYTES_MAX, &context.limits)?;
    let (greeting, hello) = admission::greeting(&mut hop).await?;
    let expected = table.expected(&hello.from, &hello.route);
    let (cell, incoming) = expected.ok_or(Lost::Protocol("nobody of that name and route is expected"))?;
    let hop = admission::challenge(hop, &greeting, context, cell.spec.hop.as_ref()).await?;
    let hop = hop.watched(cell.spec.silence);
    incoming.try_send(hop).map_err(|_| Lost::Protocol("it calls again too soon"))
}
