//! The other implementation's program.

use std::fs::Permissions;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rhumb_emulator::{Emulator, EmulatorConfig, LinkConfig, LinkShape};
use rhumb_probe::{Mode, read_key};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(20);
/// One way through the emulated link.
pub const DELAY_US: u64 = 10_000;
/// What the least round trip may be above twice that.
pub const ALLOWED_US: u64 = 500;
const KEY: &str = "00112233445566778899aabbccddeeff\n";

/// The program; `None`, with a notice, where it is not installed.
pub fn program() -> Option<PathBuf> {
    let named = std::env::var_os("STAMP_SUITE").map(PathBuf::from);
    let on_path = || {
        let folders = std::env::var_os("PATH")?;
        std::env::split_paths(&folders).map(|folder| folder.join("stamp-suite")).find(|program| program.is_file())
    };
    let found = named.or_else(on_path);
    if found.is_none() {
        eprintln!("skipped: stamp-suite is not installed; run tests/interop.sh, or set STAMP_SUITE to the program");
    }
    found
}

/// A key file that both programs take.
pub struct KeyFile {
    folder: TempDir,
}

impl KeyFile {
    pub fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("key");
        std::fs::write(&path, KEY).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        Self { folder }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("key")
    }

    pub async fn mode(&self) -> Mode {
        Mode::Authenticated(read_key(&self.path()).await.unwrap())
    }

    pub fn options(&self) -> Vec<String> {
        let path = self.path().display().to_string();
        ["--auth-mode", "A", "--hmac-key-file", &path].map(Into::into).to_vec()
    }
}

/// The program as a reflector, ended with the test.
pub struct Far {
    pub address: SocketAddr,
    child: Child,
}

impl Far {
    /// `knock` is a packet it answers.
    pub fn start(program: &Path, host: &str, options: &[String], knock: &[u8]) -> Self {
        let free = UdpSocket::bind((host, 0)).unwrap().local_addr().unwrap();
        let child = Command::new(program)
            .args(["--is-reflector", "--stateful-reflector", "--local-addr", host])
            .args(["--local-port", &free.port().to_string()])
            .args(options)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let far = Self { address: free, child };
        let visitor = UdpSocket::bind((host, 0)).unwrap();
        visitor.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        visitor.connect(free).unwrap();
        let deadline = Instant::now() + PATIENCE;
        let mut buffer = [0; 256];
        // a closed port's refusal shows as an error of either call
        while visitor.send(knock).and_then(|_| visitor.recv(&mut buffer)).is_err() {
            assert!(Instant::now() < deadline, "the reflector does not answer");
            std::thread::sleep(Duration::from_millis(10));
        }
        far
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// The program as a sender: its summary.
pub async fn send(program: &Path, to: SocketAddr, count: u64, options: &[String]) -> serde_json::Value {
    let mut command = Command::new(program);
    command
        .args(["--remote-addr", &to.ip().to_string(), "--remote-port", &to.port().to_string()])
        .args(["--local-addr", &to.ip().to_string(), "--local-port", "0"])
        .args(["--count", &count.to_string(), "--send-delay", "5ms", "--timeout", "2"])
        .args(["--ssid", "7", "--output-format", "json"])
        .args(options)
        .stderr(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let summary = lines.rfind(|line| line["type"] == "summary");
    summary.unwrap_or_else(|| panic!("no summary in `{text}`"))
}

/// A link of 10 ms each way to that reflector.
pub fn link(to: SocketAddr) -> (Emulator, SocketAddr) {
    let directed = |id: &str, reverse: &str, from: &str, towards: &str| LinkConfig {
        id: id.into(),
        reverse_id: Some(reverse.into()),
        from: from.into(),
        to: towards.into(),
        shape: LinkShape::delay(DELAY_US),
        udp_target: to,
        tcp_target: to,
        udp_port: 0,
        tcp_port: 0,
    };
    let links = vec![directed("ab", "ab~", "a", "b"), directed("ab~", "ab", "b", "a")];
    let emulator = Emulator::start(EmulatorConfig { links, ..EmulatorConfig::new(3) }).unwrap();
    let front = emulator.udp_address("ab").unwrap();
    (emulator, front)
}
