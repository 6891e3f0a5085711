//! A relay that drops some packets and knows how many.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Of ten packets the fourth is dropped on the way there.
const DROPPED_THERE: (u64, u64) = (10, 3);
/// Of seventeen the sixth on the way back.
const DROPPED_BACK: (u64, u64) = (17, 5);

/// For one client; ends with the test process.
pub struct Relay {
    pub address: SocketAddr,
    there: Arc<AtomicU64>,
    back: Arc<AtomicU64>,
}

impl Relay {
    pub fn start(target: SocketAddr) -> Self {
        let front = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = front.local_addr().unwrap();
        let onward = UdpSocket::bind("127.0.0.1:0").unwrap();
        onward.connect(target).unwrap();
        let relay = Self { address, there: Arc::default(), back: Arc::default() };
        let (front_back, onward_back) = (front.try_clone().unwrap(), onward.try_clone().unwrap());
        let (there, back) = (Arc::clone(&relay.there), Arc::clone(&relay.back));
        std::thread::spawn(move || {
            let mut buffer = [0; 2_048];
            let mut answering = false;
            for number in 0.. {
                let Ok((bytes, client)) = front.recv_from(&mut buffer) else { return };
                if number % DROPPED_THERE.0 == DROPPED_THERE.1 {
                    there.fetch_add(1, Ordering::SeqCst);
                } else {
                    onward.send(&buffer[..bytes]).unwrap();
                }
                if !std::mem::replace(&mut answering, true) {
                    let (front, onward, back) =
                        (front_back.try_clone().unwrap(), onward_back.try_clone().unwrap(), Arc::clone(&back));
                    std::thread::spawn(move || answer(&front, &onward, client, &back));
                }
            }
        });
        relay
    }

    pub fn dropped_there(&self) -> u64 {
        self.there.load(Ordering::SeqCst)
    }

    pub fn dropped_back(&self) -> u64 {
        self.back.load(Ordering::SeqCst)
    }
}

fn answer(front: &UdpSocket, onward: &UdpSocket, client: SocketAddr, dropped: &AtomicU64) {
    let mut buffer = [0; 2_048];
    for number in 0.. {
        let Ok(bytes) = onward.recv(&mut buffer) else { return };
        if number % DROPPED_BACK.0 == DROPPED_BACK.1 {
            dropped.fetch_add(1, Ordering::SeqCst);
        } else {
            front.send_to(&buffer[..bytes], client).unwrap();
        }
    }
}
