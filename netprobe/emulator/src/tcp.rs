//! Stream fronts: accept, connect to the far end, and carry both directions through their links.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::EmulatorError;
use crate::link::Link;
use crate::pump::{Lane, Path, pump};
use crate::timer::Timer;
use crate::udp::Target;

/// A connection over a cut link is reset after this long.
const RESET_AFTER: Duration = Duration::from_secs(1);
/// Connections one front carries at a time; more are reset at once.
const MOST_CONNECTIONS: usize = 1_024;
/// How long the far end may take to accept.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// Rest after a failed accept: out of file descriptors passes, but not within microseconds.
const ACCEPT_REST: Duration = Duration::from_millis(50);
/// Kernel buffers, fixed: left to themselves they grow and swallow what the window is meant to hold back.
const SOCKET_BUFFER_BYTES: usize = 256 << 10;

/// One directed link's, or one control channel's, entrance for streams.
#[derive(Debug)]
pub(crate) struct TcpFront {
    listener: TcpListener,
    carrier: Carrier,
}

#[derive(Debug, Clone)]
struct Carrier {
    forward: Arc<Link>,
    reverse: Arc<Link>,
    target: Target,
    timer: Timer,
}

impl TcpFront {
    pub(crate) fn bind(
        address: SocketAddr,
        forward: Arc<Link>,
        reverse: Arc<Link>,
        target: Target,
        timer: Timer,
    ) -> Result<Self, EmulatorError> {
        let listener =
            listen(address).map_err(|source| EmulatorError::Bind { id: forward.id().to_owned(), address, source })?;
        Ok(Self { listener, carrier: Carrier { forward, reverse, target, timer } })
    }

    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until dropped; its connections end with it.
    pub(crate) async fn serve(self) {
        let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                Some(_) = connections.join_next() => continue,
            };
            let client = match accepted {
                Ok((client, _)) => client,
                Err(error) => {
                    tracing::debug!(link = self.carrier.forward.id(), %error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_REST).await;
                    continue;
                }
            };
            let path = self.carrier.path();
            let Ok(place) = Arc::clone(&room).try_acquire_owned() else {
                reset(&client);
                continue;
            };
            if path.is_broken() {
                reset(&client);
                continue;
            }
            let carrier = self.carrier.clone();
            connections.spawn(async move {
                carrier.carry(client, path).await;
                drop(place);
            });
        }
    }
}

impl Carrier {
    fn path(&self) -> Path {
        Path::new(&self.forward, &self.reverse)
    }

    async fn carry(self, mut client: TcpStream, path: Path) {
        let mut far = None;
        let outcome = tokio::select! {
            outcome = self.relay(&mut client, &mut far, &path) => outcome,
            () = path.clone().broken_for(RESET_AFTER) => Err(io::ErrorKind::TimedOut.into()),
        };
        if let Err(error) = outcome {
            tracing::trace!(link = self.forward.id(), %error, "connection reset");
            reset(&client);
            if let Some(far) = &far {
                reset(far);
            }
        }
    }

    /// Opens as a handshake would, one way to reach the far end and one way to hear of it, then carries bytes until both
    /// directions are closed.
    async fn relay(&self, client: &mut TcpStream, far: &mut Option<TcpStream>, path: &Path) -> io::Result<()> {
        prepare(client)?;
        self.travel(&self.forward, path).await;
        let target = *self.target.lock().unwrap_or_else(PoisonError::into_inner);
        let connecting = TcpStream::connect(target);
        let connected = tokio::time::timeout(CONNECT_WITHIN, connecting).await.map_err(io::Error::from)?;
        self.travel(&self.reverse, path).await;
        let far = far.insert(connected?);
        prepare(far)?;
        let (from_client, to_client) = client.split();
        let (from_far, to_far) = far.split();
        let forward = Lane::new(&self.forward, path, &self.timer);
        let reverse = Lane::new(&self.reverse, path, &self.timer);
        tokio::try_join!(pump(from_client, to_far, &forward), pump(from_far, to_client, &reverse))?;
        Ok(())
    }

    async fn travel(&self, link: &Link, path: &Path) {
        self.timer.until(self.timer.now() + link.latency_ns()).await;
        path.clone().healed().await;
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // a restarted emulator takes its ports back although old connections linger
    #[cfg(unix)]
    socket.set_reuse_address(true)?;
    socket.set_recv_buffer_size(SOCKET_BUFFER_BYTES)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(1_024)?;
    TcpListener::from_std(socket.into())
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    SockRef::from(stream).set_send_buffer_size(SOCKET_BUFFER_BYTES)
}

/// Makes the close that follows a reset instead of an orderly end.
fn reset(stream: &TcpStream) {
    if let Err(error) = SockRef::from(stream).set_linger(Some(Duration::ZERO)) {
        tracing::trace!(%error, "cannot reset a connection");
    }
}
