//! A bounded run of TCP: two seconds and a number of octets at most, to a receiver that counts.
//!
//! The receiver begins with 16 random octets; the sender answers with their tag under the shared key (zeros without one) and
//! then sends zeros. The receiver closes its side of the run after three seconds or 256 MiB at the latest and says what came,
//! the first quarter left out, in which TCP finds its pace.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngCore, SeedableRng};
use rhumb_probe_session::{BandwidthMethod, Confidence, Ended, Mode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::BandwidthSummary;

/// The sender stops after this.
const RUN: Duration = Duration::from_secs(2);
/// The receiver gives up after this.
const MOST_RUN: Duration = Duration::from_secs(10);
const MOST_BYTES: u64 = 256 << 20;
const CHALLENGE_BYTES: usize = 16;
const PIECE_BYTES: usize = 64 << 10;
/// The receiver's word: octets counted and the microseconds that they took.
const WORD_BYTES: usize = 16;
/// Runs at a time.
const MOST_RUNS: usize = 2;

/// Sends to a receiver and asks what came.
pub(crate) async fn run_tcp(target: SocketAddr, mode: &Mode, budget_bytes: u64) -> io::Result<BandwidthSummary> {
    let begun = Instant::now();
    let run = async {
        let mut stream = TcpStream::connect(target).await?;
        let mut challenge = [0; CHALLENGE_BYTES];
        stream.read_exact(&mut challenge).await?;
        stream.write_all(&proof(mode, &challenge)).await?;
        let piece = vec![0; PIECE_BYTES];
        let (start, mut sent) = (Instant::now(), 0_u64);
        while start.elapsed() < RUN && sent < budget_bytes.min(MOST_BYTES) {
            let length = piece.len().min((budget_bytes - sent) as usize);
            sent += stream.write(&piece[..length]).await? as u64;
        }
        stream.shutdown().await?;
        let mut word = [0; WORD_BYTES];
        stream.read_exact(&mut word).await?;
        Ok::<_, io::Error>((sent, word))
    };
    let (sent, word) = timeout(MOST_RUN, run).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    let half = |at: usize| u64::from_be_bytes(std::array::from_fn(|i| word[at + i]));
    let (bytes, us) = (half(0), half(8));
    // octets x 8,000 / us = kbit/s; nobody receives more than was sent
    let rate_kbps = (bytes.min(sent) > 0).then(|| bytes.min(sent).saturating_mul(8_000).checked_div(us)).flatten();
    Ok(BandwidthSummary {
        rate_kbps,
        available_kbps: None,
        method: BandwidthMethod::Tcp,
        confidence: if rate_kbps.is_some() { Confidence::Medium } else { Confidence::Low },
        burst_bytes: None,
        ended: if sent < budget_bytes.min(MOST_BYTES) { Ended::Agreed } else { Ended::Budget },
        trains: 0,
        packets: 0,
        lost: 0,
        sent_bytes: sent,
        took_ms: begun.elapsed().as_millis() as u64,
    })
}

/// Receives runs of whoever has the key, or without one of `peers`, until dropped.
pub(crate) async fn serve_tcp(listener: TcpListener, mode: Mode, peers: Vec<IpAddr>) {
    let runs = Arc::new(Semaphore::new(MOST_RUNS));
    loop {
        let (stream, source) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // out of descriptors, mostly: not again at once
                tracing::debug!(%error, "a run of TCP was not accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let known = matches!(mode, Mode::Authenticated(_)) || peers.contains(&source.ip());
        let Some(turn) = Arc::clone(&runs).try_acquire_owned().ok().filter(|_| known) else { continue };
        let mode = mode.clone();
        tokio::spawn(async move {
            let done = timeout(MOST_RUN, receive(stream, &mode)).await;
            if let Ok(Err(error)) = done {
                tracing::debug!(%source, %error, "a run of TCP ended early");
            }
            drop(turn);
        });
    }
}

async fn receive(mut stream: TcpStream, mode: &Mode) -> io::Result<()> {
    let mut challenge = [0; CHALLENGE_BYTES];
    StdRng::from_os_rng().fill_bytes(&mut challenge);
    stream.write_all(&challenge).await?;
    let mut proved = [0; CHALLENGE_BYTES];
    stream.read_exact(&mut proved).await?;
    if !is_proof(mode, &challenge, &proved) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let mut buffer = vec![0; PIECE_BYTES];
    let (mut total, start) = (0_u64, Instant::now());
    let mut marks = vec![(Duration::ZERO, 0)];
    while total < MOST_BYTES {
        let length = stream.read(&mut buffer).await?;
        if length == 0 {
            break;
        }
        total += length as u64;
        marks.push((start.elapsed(), total));
    }
    let end = marks.last().map_or(Duration::ZERO, |(at, _)| *at);
    let (from, before) = marks.iter().copied().find(|(at, _)| *at >= end / 4).unwrap_or_default();
    let mut word = Vec::with_capacity(WORD_BYTES);
    word.extend((total - before).to_be_bytes());
    word.extend((end.saturating_sub(from).as_micros() as u64).to_be_bytes());
    stream.write_all(&word).await
}

fn proof(mode: &Mode, challenge: &[u8; CHALLENGE_BYTES]) -> [u8; CHALLENGE_BYTES] {
    match mode {
        Mode::Open => [0; CHALLENGE_BYTES],
        Mode::Authenticated(key) => key.prove(challenge),
    }
}

fn is_proof(mode: &Mode, challenge: &[u8; CHALLENGE_BYTES], proved: &[u8; CHALLENGE_BYTES]) -> bool {
    match mode {
        Mode::Open => true,
        Mode::Authenticated(key) => key.is_proof(challenge, proved),
    }
}
