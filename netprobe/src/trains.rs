//! The reflector's ear for packet trains.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};

use mio::net::UdpSocket;
use rhumb_probe_session::{Key, Mode, TrainCount, TrainReceiver, is_train};

/// Hears trains at a reflector's socket; deaf where nobody is known.
#[derive(Debug)]
pub(crate) struct Trains(Mutex<TrainReceiver>);

impl Trains {
    /// Of whoever has the key, or without a key of these addresses.
    pub(crate) fn of(mode: Mode, peers: impl IntoIterator<Item = IpAddr>) -> Self {
        Self(Mutex::new(TrainReceiver::new(mode, peers)))
    }

    /// Knows whoever has the key from now on, and nobody else.
    pub(crate) fn authenticate(&self, key: Key) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).authenticate(key);
    }

    /// What came over each link.
    pub(crate) fn counts(&self) -> Vec<TrainCount> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).counts().copied().collect()
    }

    /// Whether the packet was a train's, be it heard or not; a question is answered.
    pub(crate) fn took(&self, socket: &UdpSocket, source: SocketAddr, octets: &[u8], received_ns: u64) -> bool {
        if !is_train(octets) {
            return false;
        }
        let mut receiver = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = receiver.hear(source, octets, received_ns);
        drop(receiver);
        match answer {
            Ok(None) => {}
            Ok(Some(answer)) => {
                // an answer that is not sent is asked for again
                if let Err(error) = socket.send_to(&answer, source) {
                    tracing::trace!(%source, %error, "answer about a train not sent");
                }
            }
            Err(error) => tracing::trace!(%source, %error, "packet of a train not taken"),
        }
        true
    }
}
