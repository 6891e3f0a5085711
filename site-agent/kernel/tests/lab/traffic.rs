//! iperf3 and ping.

use crate::world::until;
use rhumb_lab::Namespace;
use serde_json::Value;
use std::{
    fs,
    net::Ipv4Addr,
    process::{Child, Command, Stdio},
};

/// What a test sends.
#[derive(Debug, Clone, Copy)]
pub enum Load {
    /// As much as comes through.
    Tcp,
    /// So many Mbit/s, whatever comes through.
    Udp(u32),
}

/// Traffic that is on its way.
pub struct Stream {
    server: Child,
    client: Child,
}

/// Sends between two hosts' addresses for some seconds, after one that does not count.
pub fn send(
    (from, own): (&Namespace, Ipv4Addr),
    (to, address): (&Namespace, Ipv4Addr),
    port: u16,
    load: Load,
    seconds: u32,
) -> Stream {
    let port = port.to_string();
    let mut server = to.command("iperf3");
    server.args(["-s", "-1", "-p", &port, "-B", &address.to_string()]).stdout(Stdio::null());
    let server = server.spawn().unwrap();
    until("iperf3 to listen", || listens(server.id(), port.parse().unwrap()).then_some(()));
    let mut client = from.command("iperf3");
    client.args(["-B", &own.to_string()]);
    client.args(["-J", "-c", &address.to_string(), "-p", &port, "-O", "1", "-t", &seconds.to_string()]);
    match load {
        Load::Tcp => client.args(["-C", "cubic"]),
        Load::Udp(mbps) => client.args(["-u", "-l", "1300", "-b", &format!("{mbps}M")]),
    };
    Stream { server, client: client.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap() }
}

impl Stream {
    /// Mbit/s that arrived.
    pub fn arrived(mut self) -> f64 {
        let output = self.client.wait_with_output().unwrap();
        let _ = self.server.kill();
        self.server.wait().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let end = &report["end"];
        let rate = end["sum_received"]["bits_per_second"].as_f64();
        let rate = rate.unwrap_or_else(|| panic!("no rate in {report}"));
        let lost = end["sum_received"]["lost_percent"].as_f64().or(end["sum"]["lost_percent"].as_f64());
        eprintln!("iperf3: {:.1} Mbit/s arrived, {:.1} % lost", rate / 1e6, lost.unwrap_or(0.0));
        rate / 1e6
    }
}

/// Echoes from one host to an address.
pub struct Pings(Child);

/// What came of them.
#[derive(Debug)]
pub struct Echoes {
    pub sent: u32,
    pub received: u32,
    pub least_ms: f64,
    /// Numbers of those that were answered, how long each took, and when the answer came, in seconds of the wall clock.
    pub answered: Vec<(u32, f64, f64)>,
}

pub fn ping(from: &Namespace, address: Ipv4Addr, count: u32, interval: &str) -> Pings {
    let mut command: Command = from.command("ping");
    command.args(["-n", "-D", "-c", &count.to_string(), "-i", interval, "-W", "2", &address.to_string()]);
    Pings(command.stdout(Stdio::piped()).spawn().unwrap())
}

impl Pings {
    pub fn end(self) -> Echoes {
        let output = String::from_utf8(self.0.wait_with_output().unwrap().stdout).unwrap();
        let after = |text: &str, mark: &str| text.split(mark).nth(1).unwrap_or_default().to_owned();
        let number = |text: String| text.split([' ', '/']).next().unwrap_or_default().parse().unwrap_or(f64::NAN);
        let line = output.lines().find(|line| line.contains("packets transmitted")).unwrap_or_default().to_owned();
        let received: f64 = number(after(&line, "transmitted, "));
        let answered = output.lines().filter(|line| line.contains("icmp_seq=") && line.contains("time="));
        Echoes {
            sent: number(line) as u32,
            received: received as u32,
            least_ms: number(after(&output, "mdev = ")),
            answered: answered
                .map(|line| {
                    let at = after(line, "[").split(']').next().and_then(|text| text.parse().ok());
                    (number(after(line, "icmp_seq=")) as u32, number(after(line, "time=")), at.unwrap_or(f64::NAN))
                })
                .collect(),
        }
    }
}

/// Whether a process's namespace has a listener on a port.
fn listens(process: u32, port: u16) -> bool {
    let mark = format!(":{port:04X} 00000000:0000 0A");
    let read = |file: &str| fs::read_to_string(format!("/proc/{process}/net/{file}")).unwrap_or_default();
    read("tcp").contains(&mark)
        || read("tcp6").contains(&format!(":{port:04X} 00000000000000000000000000000000:0000 0A"))
}
