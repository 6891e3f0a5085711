//! A balancer as it may stand before several orchestrators: connections go to the one that is ready, and those to one that
//! no longer is are ended.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

/// How often it asks, and how long it waits for an answer.
const LOOK: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_millis(300);

/// Runs until the process ends.
#[derive(Debug, Clone)]
pub struct Balancer {
    pub address: String,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    ready: Option<String>,
    open: Vec<TcpStream>,
}

impl Balancer {
    pub fn before(backends: [String; 2]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it has an address").to_string();
        let balancer = Self { address, state: Arc::default() };
        let looking = balancer.clone();
        thread::spawn(move || {
            loop {
                looking.turn_to(backends.iter().find(|b| status(b, "/readyz") == Some(200)).cloned());
                thread::sleep(LOOK);
            }
        });
        let serving = balancer.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // a client whose connection ends at once comes back
                let _ = serving.join(&stream);
            }
        });
        balancer
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn turn_to(&self, ready: Option<String>) {
        let mut state = self.state();
        if state.ready == ready {
            return;
        }
        state.ready = ready;
        for stream in state.open.drain(..) {
            // it may have ended by itself
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn join(&self, client: &TcpStream) -> io::Result<()> {
        let mut state = self.state();
        let Some(ready) = &state.ready else { return client.shutdown(Shutdown::Both) };
        let server = TcpStream::connect(ready)?;
        for (from, to) in [(client, &server), (&server, client)] {
            state.open.push(from.try_clone()?);
            let (mut from, mut to) = (from.try_clone()?, to.try_clone()?);
            thread::spawn(move || {
                // how it ends makes no difference: both sides are told
                let _ = io::copy(&mut from, &mut to);
                let _ = to.shutdown(Shutdown::Both);
            });
        }
        Ok(())
    }
}

/// Status of a GET without a credential, if there is an answer soon.
pub fn status(address: &str, path: &str) -> Option<u16> {
    let answer =
        ask(address, &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"), PATIENCE)?;
    answer.split(' ').nth(1)?.parse().ok()
}

/// What is answered to a request, if anything within `patience`.
pub fn ask(address: &str, request: &str, patience: Duration) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(patience)).ok()?;
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}
