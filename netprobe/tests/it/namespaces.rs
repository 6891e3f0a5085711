//! Two network namespaces joined by a pair of virtual Ethernet ends, for tests that need a real shaper. They need root and
//! `ip` and `tc` (iproute2); where they cannot be made the test says so and is skipped.

use std::fs::File;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The far end's address.
pub const THERE: &str = "10.231.77.2";

/// Gone with all that is in them when dropped.
pub struct Namespaces {
    here: String,
    there: String,
}

impl Namespaces {
    /// `None`, with a notice, where they cannot be made.
    pub fn make() -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let own = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let made = Self { here: format!("pa-{own}"), there: format!("pb-{own}") };
        match made.join() {
            Ok(()) => Some(made),
            Err(why) => {
                eprintln!("skipped: network namespaces cannot be made here (root, ip and tc are needed): {why}");
                None
            }
        }
    }

    fn join(&self) -> Result<(), String> {
        let Self { here, there } = self;
        ip(&["netns", "add", here])?;
        ip(&["netns", "add", there])?;
        ip(&["-n", here, "link", "add", "v0", "type", "veth", "peer", "name", "v0", "netns", there])?;
        for (ns, address) in [(here, "10.231.77.1/30"), (there, "10.231.77.2/30")] {
            ip(&["-n", ns, "addr", "add", address, "dev", "v0"])?;
            ip(&["-n", ns, "link", "set", "v0", "up"])?;
            ip(&["-n", ns, "link", "set", "lo", "up"])?;
        }
        Ok(())
    }

    /// Shapes what leaves the near end by a token bucket; `false`, with a notice, where the kernel has none.
    pub fn shape(&self, rate: &str, burst: &str) -> bool {
        let classes = [
            "qdisc add dev v0 root handle 1: htb default 10".to_owned(),
            format!("class add dev v0 parent 1: classid 1:10 htb rate {rate} ceil {rate} burst {burst} cburst {burst}"),
            "qdisc add dev v0 parent 1:10 handle 10: bfifo limit 2m".to_owned(),
        ];
        for line in classes {
            let words: Vec<_> = ["netns", "exec", &self.here, "tc"].into_iter().chain(line.split(' ')).collect();
            if let Err(why) = ip(&words) {
                eprintln!("skipped: no token-bucket shaper here: {why}");
                return false;
            }
        }
        true
    }

    /// On a thread of the near end: sockets made there are there, and so are those of threads that it starts.
    pub fn here<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        within(&self.here, work)
    }

    /// As `here`, at the far end.
    pub fn there<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        within(&self.there, work)
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for ns in [&self.here, &self.there] {
            // what was never made cannot be removed
            let _ = ip(&["netns", "del", ns]);
        }
    }
}

fn within<T: Send + 'static>(ns: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let file = File::open(format!("/run/netns/{ns}")).unwrap();
    let moved = move || {
        move_into_link_name_space(std::os::fd::AsFd::as_fd(&file), Some(LinkNameSpaceType::Network)).unwrap();
        work()
    };
    thread::spawn(moved).join().unwrap()
}

fn ip(words: &[&str]) -> Result<(), String> {
    let Output { status, stderr, .. } = Command::new("ip").args(words).output().map_err(|e| format!("ip: {e}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("ip {}: {}", words.join(" "), String::from_utf8_lossy(&stderr).trim()))
    }
}
