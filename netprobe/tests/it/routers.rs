//! Real routers between network namespaces that the test makes. Needs root and iproute2; skipped with a notice without.

use std::fs::File;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use nix::sched::{CloneFlags, setns};
use rhumb_probe::{LinkFigures, Prober, ProberConfig, Reflector, ReflectorConfig, Target};

use crate::world::until;

/// The far end, on its loopback: two ways lead there.
const FAR: &str = "10.209.9.1";
const FAR_V6: &str = "fd00:209:9::1";

/// `a` - `r` - `b`, and `r` - `s` - `b`. Answers always come back by `r`.
struct Routers {
    names: [String; 4],
}

impl Routers {
    fn make() -> Option<Self> {
        let names = ["a", "r", "s", "b"].map(|name| format!("rhumb-{}-{name}", std::process::id()));
        let made = Self { names };
        for name in &made.names {
            if let Err(error) = ip(&format!("netns add {name}")) {
                eprintln!("skipped: network namespaces need root and iproute2: {error}");
                return None;
            }
        }
        let [a, r, s, b] = made.names.clone();
        for (net, one, other) in [(1, &a, &r), (2, &r, &b), (3, &r, &s), (4, &s, &b)] {
            let (near, far) = (format!("n{net}"), format!("f{net}"));
            must(&format!("link add {near} netns {one} type veth peer name {far} netns {other}"));
            for (space, device, host) in [(one, &near, 1), (other, &far, 2)] {
                must(&format!("-n {space} addr add 10.209.{net}.{host}/24 dev {device}"));
                must(&format!("-n {space} addr add fd00:209:{net}::{host}/64 dev {device} nodad"));
                must(&format!("-n {space} link set {device} up"));
            }
        }
        for space in &made.names {
            must(&format!("-n {space} link set lo up"));
            for setting in ["net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1", "net.ipv4.conf.all.rp_filter=0"]
            {
                let (path, value) = setting.split_once('=').unwrap();
                let path = format!("/proc/sys/{}", path.replace('.', "/"));
                let script = format!("echo {value} > {path}");
                let set = Command::new("ip").args(["netns", "exec", space, "sh", "-c", &script]).status().unwrap();
                assert!(set.success(), "{setting}");
            }
        }
        for (address, net) in [(format!("{FAR}/32"), "10.209"), (format!("{FAR_V6}/128"), "fd00:209")] {
            let colons = if net.contains(':') { "::" } else { "." };
            let hop = |net_number: u32, host: u32| {
                if colons == "." { format!("{net}.{net_number}.{host}") } else { format!("{net}:{net_number}::{host}") }
            };
            let back = if colons == "." { "10.209.1.0/24" } else { "fd00:209:1::/64" };
            must(&format!("-n {b} addr add {address} dev lo"));
            must(&format!("-n {a} route add {address} via {}", hop(1, 2)));
            must(&format!("-n {r} route add {address} via {}", hop(2, 2)));
            must(&format!("-n {s} route add {address} via {}", hop(4, 2)));
            must(&format!("-n {b} route add {back} via {}", hop(2, 1)));
        }
        Some(made)
    }

    /// Sends what goes to the far end by the second router from now on.
    fn take_the_longer_way(&self) {
        must(&format!("-n {} route replace {FAR}/32 via 10.209.3.2", self.names[1]));
    }

    /// Runs on a thread inside that namespace: sockets stay where they were made.
    fn inside<T: Send>(&self, which: usize, run: impl FnOnce() -> T + Send) -> T {
        let space = File::open(format!("/run/netns/{}", self.names[which])).unwrap();
        let thread = || {
            setns(space, CloneFlags::CLONE_NEWNET).unwrap();
            run()
        };
        std::thread::scope(|scope| scope.spawn(thread).join().unwrap())
    }
}

impl Drop for Routers {
    fn drop(&mut self) {
        for name in &self.names {
            // one that was not made cannot be removed
            let _ = ip(&format!("netns del {name}"));
        }
    }
}

fn ip(words: &str) -> Result<(), String> {
    let output = Command::new("ip").args(words.split(' ')).output().map_err(|error| error.to_string())?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

fn must(words: &str) {
    ip(words).unwrap_or_else(|error| panic!("ip {words}: {error}"));
}

fn hops(figures: &LinkFigures) -> (Option<u8>, Option<u8>) {
    (figures.path.ttl_forward, figures.path.ttl_backward)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hops_are_seen_each_way_and_another_path_is_noticed() {
    let Some(routers) = Routers::make() else { return };
    let reflector = |host: &str| {
        let address = SocketAddr::new(host.parse().unwrap(), 0);
        routers.inside(3, || Reflector::bind(address, ReflectorConfig::default()).unwrap())
    };
    let (far, far_v6) = (reflector(FAR), reflector(FAR_V6));
    let record = Duration::from_millis(400);
    let prober = routers.inside(0, || Prober::start(ProberConfig { record, ..ProberConfig::default() }).unwrap());
    let target = |id: &str, far: &Reflector| Target {
        interval: Duration::from_millis(20),
        dscp: 46,
        ..Target::new(id, far.address())
    };
    prober.set_targets(vec![target("ab", &far), target("ab v6", &far_v6)]);
    for link in ["ab", "ab v6"] {
        let figures = until(&prober, link, |figures| figures.received > 20).await;
        assert_eq!(hops(&figures), (Some(254), Some(254)), "one router on {link}");
        assert_eq!((figures.path.dscp_forward, figures.path.dscp_backward), (Some(46), Some(46)));
        assert_eq!((figures.lost_forward_ppm, figures.lost_backward_ppm), (Some(0), Some(0)));
    }
    routers.take_the_longer_way();
    let moved = until(&prober, "ab", |figures| figures.path_changed).await;
    assert_eq!(hops(&moved), (Some(253), Some(254)), "two routers there, one back");
    let other = until(&prober, "ab v6", |figures| figures.floor_us.is_some()).await;
    assert!(!other.path_changed && !other.path.changed);
}
