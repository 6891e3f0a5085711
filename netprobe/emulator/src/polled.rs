//! A thread that waits for sockets or devices and ends when it is woken.

use mio::Waker;
use std::{io, thread::JoinHandle};

/// Stops the thread when dropped.
#[derive(Debug)]
pub(crate) struct Polled {
    stop: Waker,
    name: &'static str,
    thread: Option<JoinHandle<()>>,
}

impl Polled {
    /// `run` has to return once `stop` has woken its poll.
    pub(crate) fn start(name: &'static str, stop: Waker, run: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        let thread = std::thread::Builder::new().name(name.into()).spawn(run)?;
        Ok(Self { stop, name, thread: Some(thread) })
    }
}

impl Drop for Polled {
    fn drop(&mut self) {
        if let Err(error) = self.stop.wake() {
            tracing::error!(%error, thread = self.name, "cannot stop a thread of the emulator");
            return;
        }
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!(thread = self.name, "a thread of the emulator panicked");
        }
    }
}
