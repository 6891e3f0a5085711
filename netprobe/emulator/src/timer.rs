//! The thread that hands things over when they are due, to some tens of microseconds.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::EmulatorError;
use crate::link::{Link, Transit};

/// Of threads that stand for the network: what they are late is delay.
const NICENESS: i32 = -15;

/// A datagram on its way.
#[derive(Debug)]
pub(crate) struct Datagram {
    pub(crate) link: Arc<Link>,
    pub(crate) transit: Transit,
    pub(crate) exit: Exit,
    pub(crate) payload: Box<[u8]>,
}

/// Where a datagram comes out.
#[derive(Debug)]
pub(crate) enum Exit {
    /// Sent to `to`, or to the socket's peer if there is none.
    Udp { socket: Arc<UdpSocket>, to: Option<SocketAddr> },
    /// A network device of its own.
    #[cfg(feature = "cables")]
    Device(Arc<crate::cable::Device>),
}

/// Handle of the release thread; times are nanoseconds since its start.
#[derive(Debug, Clone)]
pub(crate) struct Timer {
    shared: Arc<Shared>,
}

/// Stops the thread when dropped.
#[derive(Debug)]
pub(crate) struct TimerThread {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    epoch: Instant,
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    items: BinaryHeap<Reverse<Item>>,
    next_order: u64,
    stopped: bool,
}

#[derive(Debug)]
struct Item {
    due: u64,
    order: u64,
    action: Action,
}

#[derive(Debug)]
enum Action {
    Send(Datagram),
    Wake(oneshot::Sender<()>),
}

impl Timer {
    pub(crate) fn start() -> Result<(Self, TimerThread), EmulatorError> {
        let shared =
            Arc::new(Shared { epoch: Instant::now(), queue: Mutex::new(Queue::default()), changed: Condvar::new() });
        let running = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("emulator-release".into())
            .spawn(move || running.run())
            .map_err(|source| EmulatorError::Thread { what: "release thread", source })?;
        Ok((Self { shared: Arc::clone(&shared) }, TimerThread { shared, thread: Some(thread) }))
    }

    pub(crate) fn now(&self) -> u64 {
        self.shared.now()
    }

    /// Hands the datagram over when it is due.
    pub(crate) fn send(&self, datagram: Datagram) {
        self.shared.push(datagram.transit.due_at, Action::Send(datagram));
    }

    /// Returns once `due` has come, or at once when the thread is stopped.
    pub(crate) async fn until(&self, due: u64) {
        if due <= self.now() {
            return;
        }
        let (wake, woken) = oneshot::channel();
        self.shared.push(due, Action::Wake(wake));
        // a dropped sender means the emulator stops, and then nobody waits for time any more
        let _ = woken.await;
    }
}

impl Drop for TimerThread {
    fn drop(&mut self) {
        let mut queue = self.shared.lock();
        queue.stopped = true;
        queue.items.clear();
        drop(queue);
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the emulator's release thread panicked");
        }
    }
}

impl Shared {
    fn now(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, due: u64, action: Action) {
        let mut queue = self.lock();
        if queue.stopped {
            return;
        }
        let first = queue.items.peek().is_none_or(|Reverse(item)| due < item.due);
        let order = queue.next_order;
        queue.next_order += 1;
        queue.items.push(Reverse(Item { due, order, action }));
        drop(queue);
        if first {
            self.changed.notify_one();
        }
    }

    fn run(&self) {
        wake_on_time();
        let mut queue = self.lock();
        while !queue.stopped {
            let now = self.now();
            match queue.items.peek().map(|Reverse(item)| item.due) {
                Some(due) if due <= now => {
                    let due_item = queue.items.pop();
                    drop(queue);
                    if let Some(Reverse(item)) = due_item {
                        item.action.perform();
                    }
                    queue = self.lock();
                }
                Some(due) => {
                    let wait = Duration::from_nanos(due - now);
                    queue = self.changed.wait_timeout(queue, wait).unwrap_or_else(PoisonError::into_inner).0;
                }
                None => queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

/// Asks for wake-ups when they are due, ahead of other work where the system allows it. A refusal costs exactness only.
pub(crate) fn wake_on_time() {
    if let Err(error) = nix::sys::prctl::set_timerslack(1) {
        tracing::debug!(%error, "packets come out as late as the system's timer slack allows");
    }
    let this_thread = rustix::process::Pid::from_raw(nix::unistd::gettid().as_raw());
    if let Err(error) = rustix::process::setpriority_process(this_thread, NICENESS) {
        tracing::debug!(%error, "packets wait their turn behind other work");
    }
}

impl Action {
    fn perform(self) {
        match self {
            Self::Send(datagram) => datagram.release(),
            // the waiting side may have gone
            Self::Wake(wake) => drop(wake.send(())),
        }
    }
}

impl Datagram {
    fn release(self) {
        for _ in 0..self.link.datagram_left(self.payload.len(), self.transit) {
            let sent = match &self.exit {
                Exit::Udp { socket, to: Some(to) } => socket.send_to(&self.payload, *to),
                Exit::Udp { socket, to: None } => socket.send(&self.payload),
                #[cfg(feature = "cables")]
                Exit::Device(device) => device.send(&self.payload),
            };
            if let Err(error) = sent {
                // as on a real network: nobody listens there, or the host's buffer is full
                tracing::trace!(link = self.link.id(), %error, "datagram not delivered");
            }
        }
    }
}

impl PartialEq for Item {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Item {}

impl PartialOrd for Item {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Item {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.due, self.order).cmp(&(other.due, other.order))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn waits_end_in_order_and_not_early() {
        let (timer, _thread) = Timer::start().unwrap();
        let start = timer.now();
        let wait = |ms: u64| {
            let timer = timer.clone();
            async move {
                timer.until(start + ms * 1_000_000).await;
                timer.now() - start
            }
        };
        let (late, early) = tokio::join!(wait(20), wait(5));
        assert!(early >= 5_000_000 && late >= 20_000_000 && early < late, "{early} {late}");
    }

    #[tokio::test]
    async fn stopping_ends_every_wait() {
        let (timer, thread) = Timer::start().unwrap();
        let far = timer.now() + 3_600_000_000_000;
        let waiting = tokio::spawn({
            let timer = timer.clone();
            async move { timer.until(far).await }
        });
        tokio::task::yield_now().await;
        drop(thread);
        tokio::time::timeout(Duration::from_secs(5), waiting).await.unwrap().unwrap();
    }
}
