//! The accept loops, plain and with TLS: bounded connections, a time limit on headers and on readers, a drain at the end.

mod patient;

use crate::tls::{Peer, Tls};
use axum::{Extension, Router};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto::Builder, graceful::GracefulShutdown},
    service::TowerToHyperService,
};
use patient::Impatient;
use rhumb_identity::Identity;
use std::{io, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::sync::CancellationToken;

/// What a connection is given.
#[derive(Debug, Clone, Copy)]
struct Patience {
    /// For a whole request head, and between two requests.
    header: Duration,
    /// For a reader to take anything of an answer.
    write: Duration,
    /// For requests in progress at the end.
    drain: Duration,
}

const PATIENCE: Patience =
    Patience { header: Duration::from_secs(10), write: Duration::from_secs(30), drain: Duration::from_secs(8) };

/// Serves until `stop`; then takes no more connections and lets requests in progress end.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    connections: usize,
    stop: CancellationToken,
) -> io::Result<()> {
    serve_with(PATIENCE, listener, router, None, connections, stop).await
}

/// As `serve`, with TLS: what is current when a connection comes. A peer with a certificate is known by it.
pub async fn serve_tls(
    listener: TcpListener,
    router: Router,
    tls: watch::Receiver<Tls>,
    connections: usize,
    stop: CancellationToken,
) -> io::Result<()> {
    serve_with(PATIENCE, listener, router, Some(tls), connections, stop).await
}

async fn serve_with(
    patience: Patience,
    listener: TcpListener,
    router: Router,
    tls: Option<watch::Receiver<Tls>>,
    connections: usize,
    stop: CancellationToken,
) -> io::Result<()> {
    let mut builder = Builder::new(TokioExecutor::new());
    // hyper's own limit does nothing without a timer; it has 100 headers at most by itself
    builder.http1().timer(TokioTimer::new()).header_read_timeout(patience.header).max_buf_size(64 << 10);
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
        // events are small and must not wait for each other; a peer that is gone already shows later
        let _ = stream.set_nodelay(true);
        let stream = Impatient::new(stream, patience.write);
        let (builder, router, watcher) = (builder.clone(), router.clone(), graceful.watcher());
        let tls = tls.as_ref().map(|tls| tls.borrow().clone());
        tokio::spawn(async move {
            let _place = place;
            let ended = match tls {
                None => {
                    let service = TowerToHyperService::new(router);
                    let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
                    watcher.watch(connection).await
                }
                Some(tls) => {
                    let Some((stream, router)) = handshake(&tls, stream, router, patience.header).await else { return };
                    let service = TowerToHyperService::new(router);
                    let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
                    watcher.watch(connection).await
                }
            };
            if let Err(error) = ended {
                tracing::debug!(error, "a connection ended with an error");
            }
        });
    }
    drop(listener);
    if tokio::time::timeout(patience.drain, graceful.shutdown()).await.is_err() {
        tracing::warn!("connections were still open at the end of the drain");
    }
    Ok(())
}

/// The stream inside TLS, and the router that knows who is at its other end. `None`: the peer did not get that far.
async fn handshake(
    tls: &Tls,
    stream: Impatient<TcpStream>,
    router: Router,
    limit: Duration,
) -> Option<(TlsStream<Impatient<TcpStream>>, Router)> {
    let acceptor = TlsAcceptor::from(Arc::clone(&tls.config));
    let stream = match tokio::time::timeout(limit, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            tracing::debug!(%error, "a peer did not agree on TLS");
            return None;
        }
        Err(_) => return None,
    };
    let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    let peer = certificate.map(|der| Identity::read(der, &tls.domain)).transpose();
    match peer {
        Ok(None) => Some((stream, router)),
        Ok(Some(identity)) => Some((stream, router.layer(Extension(Peer(identity))))),
        Err(error) => {
            tracing::warn!(%error, "a peer came with a certificate that names no point");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::routing::get;
    use std::{net::SocketAddr, time::Instant};
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpStream,
    };

    const SHORT: Patience = Patience {
        header: Duration::from_millis(300),
        write: Duration::from_millis(500),
        drain: Duration::from_secs(5),
    };
    /// More than sockets buffer.
    const LARGE: usize = 64 << 20;

    async fn start(stop: &CancellationToken) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router =
            Router::new().route("/", get(|| async { "well" })).route("/large", get(|| async { vec![b'x'; LARGE] }));
        tokio::spawn(serve_with(SHORT, listener, router, None, 2, stop.clone()));
        address
    }

    /// Reads to the end of the connection; how long that took.
    async fn to_the_end(mut stream: TcpStream) -> (Vec<u8>, Duration) {
        let begun = Instant::now();
        let mut got = Vec::new();
        // a reset is an end too
        let _ = tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut got)).await.expect("no end");
        (got, begun.elapsed())
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_header_that_never_ends_is_cut_off() {
        let stop = CancellationToken::new();
        let address = start(&stop).await;
        let mut slow = TcpStream::connect(address).await.unwrap();
        slow.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nX-Slow: ").await.unwrap();
        let (_, took) = to_the_end(slow).await;
        assert!(took < Duration::from_secs(5), "{took:?}");
        stop.cancel();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_connection_that_says_nothing_more_gives_its_place_back() {
        let stop = CancellationToken::new();
        let address = start(&stop).await;
        let mut idle = Vec::new();
        for _ in 0..2 {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
            idle.push(stream);
        }
        // both places are taken: this one is served when one of them is given up
        let mut third = TcpStream::connect(address).await.unwrap();
        third.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await.unwrap();
        let (got, _) = to_the_end(third).await;
        assert!(String::from_utf8_lossy(&got).contains("well"), "{got:?}");
        stop.cancel();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_reader_that_takes_nothing_is_let_go() {
        let stop = CancellationToken::new();
        let address = start(&stop).await;
        let mut readers = Vec::new();
        for _ in 0..2 {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
            readers.push(stream);
        }
        let mut third = TcpStream::connect(address).await.unwrap();
        third.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await.unwrap();
        let (got, _) = to_the_end(third).await;
        assert!(String::from_utf8_lossy(&got).contains("well"), "the readers kept their places: {got:?}");
        let mut got = Vec::new();
        for reader in readers {
            got.push(to_the_end(reader).await.0.len());
        }
        assert!(got.iter().any(|n| *n < LARGE), "neither was cut off: {got:?}");
        stop.cancel();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn too_many_or_too_large_headers_are_refused() {
        let stop = CancellationToken::new();
        let address = start(&stop).await;
        let many = (0..200).fold(String::new(), |all, i| format!("{all}X-{i}: a\r\n"));
        let large = format!("X-Large: {}\r\n", "a".repeat(128 << 10));
        for headers in [many, large] {
            let mut stream = TcpStream::connect(address).await.unwrap();
            // it may be refused before all of it is sent
            let _ = stream.write_all(format!("GET / HTTP/1.1\r\nHost: a\r\n{headers}\r\n").as_bytes()).await;
            let (got, _) = to_the_end(stream).await;
            let text = String::from_utf8_lossy(&got);
            assert!(text.is_empty() || text.starts_with("HTTP/1.1 431"), "{text}");
        }
        stop.cancel();
    }
}
