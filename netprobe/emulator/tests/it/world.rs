//! Two points `a` and `b` joined by `ab` and `ab~`, with echoing far ends.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use rhumb_emulator::{Emulator, EmulatorConfig, LinkConfig, LinkShape, LinkStatus};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// No test waits longer than this for anything.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub fn link(id: &str, from: &str, to: &str, shape: LinkShape, udp: SocketAddr, tcp: SocketAddr) -> LinkConfig {
    let reverse = id.strip_suffix('~').map_or_else(|| format!("{id}~"), str::to_owned);
    LinkConfig {
        id: id.into(),
        reverse_id: Some(reverse),
        from: from.into(),
        to: to.into(),
        shape,
        udp_target: udp,
        tcp_target: tcp,
        udp_port: 0,
        tcp_port: 0,
    }
}

pub fn pair(forward: LinkShape, reverse: LinkShape, udp: SocketAddr, tcp: SocketAddr) -> Emulator {
    let links = vec![link("ab", "a", "b", forward, udp, tcp), link("ab~", "b", "a", reverse, udp, tcp)];
    Emulator::start(EmulatorConfig { links, ..EmulatorConfig::new(42) }).unwrap()
}

pub fn status(emulator: &Emulator, id: &str) -> LinkStatus {
    emulator.snapshot().links.into_iter().find(|link| link.id == id).unwrap()
}

/// A reflector on a thread of its own, so that the runtime's timers play no part. Ends with the test process.
pub fn udp_echo() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 2_048];
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            socket.send_to(&buffer[..length], from).unwrap();
        }
    });
    address
}

/// Sends every stream back.
pub async fn tcp_echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut from, mut to) = stream.split();
                let _ = tokio::io::copy(&mut from, &mut to).await;
                let _ = to.shutdown().await;
            });
        }
    });
    address
}

/// Reads every stream to its end and answers how many octets it was.
pub async fn tcp_sink() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut buffer = vec![0; 65_536];
                let mut total = 0_u64;
                loop {
                    match stream.read(&mut buffer).await {
                        Ok(0) => break,
                        Ok(length) => total += length as u64,
                        Err(_) => return,
                    }
                }
                let _ = stream.write_all(&total.to_be_bytes()).await;
            });
        }
    });
    address
}

pub fn nobody() -> SocketAddr {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

pub fn udp_client(front: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(front).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// One echoed datagram; `None` if nothing came within `wait`.
pub fn ping(socket: &UdpSocket, wait: Duration) -> Option<Duration> {
    socket.set_read_timeout(Some(wait)).unwrap();
    let mut buffer = [0; 64];
    let sent = Instant::now();
    socket.send(&[7; 44]).unwrap();
    match socket.recv(&mut buffer) {
        Ok(_) => Some(sent.elapsed()),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => None,
        Err(error) => panic!("{error}"),
    }
}

/// Sorted round trips of `count` pings that must all be answered.
pub fn round_trips(socket: &UdpSocket, count: usize) -> Vec<Duration> {
    let mut trips: Vec<_> = (0..count).map(|_| ping(socket, PATIENCE).expect("no loss here")).collect();
    trips.sort();
    trips
}

/// One echoed octet over a stream.
pub async fn echo_byte(stream: &mut TcpStream) -> io::Result<Duration> {
    let sent = Instant::now();
    stream.write_all(&[7]).await?;
    stream.read_exact(&mut [0]).await?;
    Ok(sent.elapsed())
}

/// Whether a new connection comes to nothing, at the latest with its first octet.
pub async fn is_refused(front: SocketAddr) -> bool {
    let attempt = async { echo_byte(&mut TcpStream::connect(front).await?).await };
    tokio::time::timeout(PATIENCE, attempt).await.unwrap().is_err()
}
