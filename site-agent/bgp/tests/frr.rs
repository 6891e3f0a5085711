//! Against a real GoBGP daemon and a real FRR router, each in a namespace of its own: needs root, iproute2, gobgpd and frr.

#![allow(clippy::unwrap_used)] // helpers of tests stand outside of test functions here

use rhumb_bgp::{Announcements, Applied, Bgp, BgpError, Steer, mark};
use rhumb_lab::{Namespace, within};
use rhumb_model::OrderId;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;

const ZEBRA: &str = "/usr/lib/frr/zebra";
const BGPD: &str = "/usr/lib/frr/bgpd";
const ASN: u32 = 64_512;
const URL: &str = "http://127.0.0.1:50051";

/// `g` with the daemon (10.60.0.1) and `r` with the router (10.60.0.2), on one wire.
struct Peers {
    spaces: BTreeMap<&'static str, Namespace>,
    processes: BTreeMap<&'static str, Child>,
    folder: TempDir,
    runtime: String,
}

fn run(words: &str) -> bool {
    let mut words = words.split(' ');
    let program = words.next().unwrap();
    Command::new(program).args(words).output().is_ok_and(|output| output.status.success())
}

impl Peers {
    /// `None`, with a notice, where they cannot be had.
    fn start() -> Option<Self> {
        let there = Path::new(ZEBRA).exists() && Path::new(BGPD).exists();
        if !there || !run("gobgpd --version") {
            eprintln!("skipped: gobgpd and frr are needed");
            return None;
        }
        let prefix = format!("y{}", std::process::id());
        let spaces = BTreeMap::from(["g", "r"].map(|name| (name, Namespace::named(format!("{prefix}-{name}")))));
        if !spaces.values().all(|space| run(&format!("ip netns add {}", space.name()))) {
            eprintln!("skipped: root, iproute2 and network namespaces are needed");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        // the router's daemons give up being root
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let runtime = format!("/var/run/frr/{prefix}");
        let mut peers = Self { spaces, processes: BTreeMap::new(), folder, runtime };
        let (g, r) = (peers.spaces["g"].clone(), peers.spaces["r"].clone());
        g.ip(&format!("link add e0 type veth peer name e0 netns {}", r.name())).unwrap();
        for (space, address) in [(&g, "10.60.0.1/24"), (&r, "10.60.0.2/24")] {
            space.ip("link set lo up").unwrap();
            space.ip(&format!("addr add {address} dev e0")).unwrap();
            space.ip("link set e0 up").unwrap();
        }
        peers.configure();
        peers.begin_daemon();
        peers.begin_router(&prefix);
        Some(peers)
    }

    fn configure(&self) {
        let at = |name: &str| self.folder.path().join(name);
        let daemon = format!(
            "[global.config]\n  as = {ASN}\n  router-id = \"10.60.0.1\"\n[[neighbors]]\n  [neighbors.config]\n    \
             neighbor-address = \"10.60.0.2\"\n    peer-as = 64513\n  [neighbors.timers.config]\n    connect-retry = 1\n"
        );
        fs::write(at("g.toml"), daemon).unwrap();
        fs::write(at("zebra.conf"), "hostname r\n").unwrap();
        let router = format!(
            "hostname r\nrouter bgp 64513\n bgp router-id 10.60.0.2\n no bgp ebgp-requires-policy\n \
             neighbor 10.60.0.1 remote-as {ASN}\n neighbor 10.60.0.1 timers connect 1\n neighbor 10.60.0.1 timers 1 3\n"
        );
        fs::write(at("bgpd.conf"), router).unwrap();
    }

    fn spawn(&mut self, name: &'static str, space: &str, program: &str, words: &[&str]) {
        let log = fs::File::create(self.folder.path().join(format!("{name}.log"))).unwrap();
        let child = self.spaces[space]
            .command(program)
            .args(words)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.processes.insert(name, child);
    }

    fn begin_daemon(&mut self) {
        let config = self.folder.path().join("g.toml").display().to_string();
        self.spawn("gobgpd", "g", "gobgpd", &["-f", &config, "--api-hosts", "127.0.0.1:50051", "--pprof-disable"]);
    }

    fn begin_router(&mut self, prefix: &str) {
        fs::create_dir_all(&self.runtime).unwrap();
        assert!(run(&format!("chown frr:frr {}", self.runtime)));
        for (name, program) in [("zebra", ZEBRA), ("bgpd", BGPD)] {
            let at = |end: &str| self.folder.path().join(format!("{name}.{end}")).display().to_string();
            let (config, pid) = (at("conf"), format!("{}/{name}.pid", self.runtime));
            self.spawn(name, "r", program, &["-N", prefix, "-f", &config, "-i", &pid]);
            // the one connects to the other
            until("the router's socket", || Path::new(&format!("{}/zserv.api", self.runtime)).exists().then_some(()));
        }
    }

    fn kill(&mut self, name: &str) {
        let mut child = self.processes.remove(name).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// With a connection of its own, as a driver has after a start.
    fn driver<T: Send>(&self, work: impl AsyncFnOnce(&mut Bgp) -> Result<T, BgpError> + Send) -> Result<T, BgpError> {
        let inside = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut bgp = Bgp::open(URL, Duration::from_secs(5)).unwrap();
                work(&mut bgp).await
            })
        };
        within(&self.spaces["g"], inside).unwrap()
    }

    fn apply(&self, wanted: &Announcements) -> Applied {
        self.driver(async |bgp: &mut Bgp| bgp.apply(wanted).await).unwrap()
    }

    /// What the router's kernel has from BGP.
    fn routed(&self) -> BTreeSet<String> {
        let shown = self.spaces["r"].ip("route show proto bgp").unwrap();
        let next_hop = |line: &str| line.split("via ").nth(1)?.split_whitespace().next().map(str::to_owned);
        let short = |line: &str| Some(format!("{} via {}", line.split_whitespace().next()?, next_hop(line)?));
        shown.lines().filter_map(short).collect()
    }

    fn routes(&self, wanted: &[&str]) {
        let wanted: BTreeSet<String> = wanted.iter().map(|&line| line.to_owned()).collect();
        until(&format!("{wanted:?} in the router's kernel"), || (self.routed() == wanted).then_some(()));
    }

    fn gobgp(&self, words: &str) -> String {
        let output = self.spaces["g"].command("gobgp").args(words.split(' ')).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("{}\n{}", self.gobgp("neighbor"), self.gobgp("global rib"));
            println!("{:?}", self.spaces["r"].ip("route"));
            for name in ["gobgpd", "zebra", "bgpd"] {
                println!(
                    "--- {name}\n{}",
                    fs::read_to_string(self.folder.path().join(format!("{name}.log"))).unwrap_or_default()
                );
            }
        }
        for child in self.processes.values_mut() {
            // it may have ended by itself
            let _ = child.kill();
            let _ = child.wait();
        }
        for space in self.spaces.values() {
            run(&format!("ip netns del {}", space.name()));
        }
        let _ = fs::remove_dir_all(&self.runtime);
    }
}

#[track_caller]
fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn order(number: u128) -> OrderId {
    OrderId(uuid::Uuid::from_u128(number))
}

fn steer(hop: u8, orders: &[u128]) -> Steer {
    let orders = orders.iter().map(|n| mark(order(*n))).collect();
    Steer { next_hop: std::net::Ipv4Addr::new(10, 60, 0, hop), orders }
}

fn announcements(all: &[(&str, Steer)]) -> Announcements {
    all.iter().map(|(prefix, steer)| (prefix.parse().unwrap(), steer.clone())).collect()
}

#[test]
fn an_orders_prefix_is_in_the_routers_kernel_for_as_long_as_the_order() {
    let Some(mut peers) = Peers::start() else { return };
    until("the daemon", || peers.driver(async |bgp: &mut Bgp| bgp.observe().await).ok());
    // somebody else's route of the same daemon
    peers.gobgp("global rib add 10.99.0.0/24 nexthop 10.60.0.9");
    peers.routes(&["10.99.0.0/24 via 10.60.0.9"]);

    let two = announcements(&[("10.12.0.0/24", steer(3, &[1])), ("10.13.0.0/24", steer(3, &[1, 2]))]);
    assert_eq!(peers.apply(&two).announced.len(), 2);
    peers.routes(&["10.12.0.0/24 via 10.60.0.3", "10.13.0.0/24 via 10.60.0.3", "10.99.0.0/24 via 10.60.0.9"]);
    assert!(peers.gobgp("global rib").contains(&format!("{ASN}:0:1")), "{}", peers.gobgp("global rib"));
    assert!(peers.apply(&two).is_unchanged(), "the same again");
    // another driver finds what this one has announced
    assert_eq!(peers.driver(async |bgp: &mut Bgp| bgp.observe().await).unwrap(), two);

    // by another way, in place, and one order of two is over
    let moved = announcements(&[("10.12.0.0/24", steer(4, &[1])), ("10.13.0.0/24", steer(3, &[2]))]);
    assert_eq!(peers.apply(&moved).announced.len(), 2);
    peers.routes(&["10.12.0.0/24 via 10.60.0.4", "10.13.0.0/24 via 10.60.0.3", "10.99.0.0/24 via 10.60.0.9"]);

    // what is somebody else's is not taken over, and not withdrawn
    let greedy = announcements(&[("10.12.0.0/24", steer(4, &[1])), ("10.99.0.0/24", steer(4, &[1]))]);
    let applied = peers.apply(&greedy);
    assert_eq!(applied.refused, BTreeSet::from(["10.99.0.0/24".parse().unwrap()]));
    assert_eq!(applied.withdrawn, BTreeSet::from(["10.13.0.0/24".parse().unwrap()]));
    peers.routes(&["10.12.0.0/24 via 10.60.0.4", "10.99.0.0/24 via 10.60.0.9"]);

    // the daemon dies with all it knew: the next statement brings back what is ordered
    peers.kill("gobgpd");
    let dead = peers.driver(async |bgp: &mut Bgp| bgp.apply(&Announcements::new()).await).unwrap_err();
    assert!(dead.to_string().contains("see that it runs"), "{dead}");
    peers.begin_daemon();
    let one = announcements(&[("10.12.0.0/24", steer(4, &[1]))]);
    until("the daemon", || peers.driver(async |bgp: &mut Bgp| bgp.apply(&one).await).ok());
    peers.routes(&["10.12.0.0/24 via 10.60.0.4"]);

    // the order is over
    assert_eq!(peers.apply(&Announcements::new()).withdrawn.len(), 1);
    peers.routes(&[]);
    assert!(peers.apply(&Announcements::new()).is_unchanged());
}
