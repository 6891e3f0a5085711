//! The accept loop: bounded connections, a time limit on headers, a drain at the end.

use axum::Router;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto::Builder, graceful::GracefulShutdown},
    service::TowerToHyperService,
};
use std::{io, sync::Arc, time::Duration};
use tokio::{net::TcpListener, sync::Semaphore};
use tokio_util::sync::CancellationToken;

const HEADER_TIME: Duration = Duration::from_secs(10);
const DRAIN: Duration = Duration::from_secs(8);

/// Serves until `stop`; then takes no more connections and lets requests in progress end.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    connections: usize,
    stop: CancellationToken,
) -> io::Result<()> {
    let mut builder = Builder::new(TokioExecutor::new());
    // hyper's own limit does nothing without a timer
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIME).max_buf_size(64 << 10);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(128)
        .max_header_list_size(16 << 10)
        .max_pending_accept_reset_streams(16)
        .keep_alive_interval(Duration::from_secs(20));
    let places = Arc::new(Semaphore::new(connections));
    let graceful = GracefulShutdown::new();
    loop {
        let place = tokio::select! {
            () = stop.cancelled() => break,
            place = Arc::clone(&places).acquire_owned() => place.map_err(io::Error::other)?,
        };
        let (stream, _) = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // out of file descriptors, or the peer is gone already: the next one may be well
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        let service = TowerToHyperService::new(router.clone());
        let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).into_owned();
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(error, "a connection ended with an error");
            }
            drop(place);
        });
    }
    drop(listener);
    if tokio::time::timeout(DRAIN, graceful.shutdown()).await.is_err() {
        tracing::warn!("connections were still open at the end of the drain");
    }
    Ok(())
}
