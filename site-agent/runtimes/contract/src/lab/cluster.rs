//! A Slurm cluster on this host: one controller, several nodes with fake devices, slurmrestd; all below one folder.

use rhumb_runtimes::{AnyRuntime, Base, RuntimeSettings, SlurmAccess, SlurmSettings};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Mutex,
    time::{Duration, Instant},
};
use tempfile::TempDir;

pub const NODES: u32 = 4;
pub const DEVICES: u32 = 8;
const PATIENCE: Duration = Duration::from_mins(1);
const PROGRAMS: [&str; 6] = [
    "/usr/sbin/slurmctld",
    "/usr/sbin/slurmd",
    "/usr/sbin/munged",
    "/usr/sbin/slurmrestd",
    "/usr/bin/sbatch",
    "/usr/bin/srun",
];

#[derive(Debug)]
pub struct SlurmLab {
    pub folder: TempDir,
    rest: Mutex<Option<Child>>,
    supervisor: PathBuf,
}

impl SlurmLab {
    /// `None`: this host cannot.
    pub fn start(supervisor: &Path) -> Option<Self> {
        if !super::is_asked_for() {
            return None;
        }
        if PROGRAMS.iter().any(|path| !Path::new(path).exists()) {
            super::skip("Slurm is not installed: slurm-wlm, slurmrestd, slurm-wlm-jwt-plugin, munge");
            return None;
        }
        if !rustix::process::getuid().is_root() {
            super::skip("a Slurm cluster on this host takes root");
            return None;
        }
        let folder = tempfile::Builder::new().prefix("slurm-").tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let lab = Self { folder, rest: Mutex::new(None), supervisor: supervisor.into() };
        lab.write();
        lab.raise();
        Some(lab)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn config(&self) -> PathBuf {
        self.path("slurm.conf")
    }

    fn write(&self) {
        let at = self.folder.path().display();
        for name in ["state", "spool", "log", "run", "dev", "rest"] {
            fs::create_dir(self.path(name)).unwrap();
        }
        for device in 0..DEVICES {
            // a character device, so that Slurm numbers it; nothing is behind it
            let path = self.path(&format!("dev/gpu{device}"));
            run("mknod", &["-m", "666", path.to_str().unwrap(), "c", "195", &device.to_string()]);
        }
        for (name, bytes) in [("jwt.key", 32), ("munge.key", 1_024)] {
            let key: Vec<u8> = (0..bytes).map(|place: u32| (place * 7 % 251) as u8).collect();
            fs::write(self.path(name), key).unwrap();
            fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o600)).unwrap();
        }
        let ports = super::free_ports(NODES as usize + 1);
        let mut text = format!(
            "ClusterName=lab\nSlurmctldHost=localhost(127.0.0.1)\nSlurmctldPort={}\nSlurmUser=root\nSlurmdUser=root\n\
             AuthType=auth/munge\nAuthInfo=socket={at}/run/munge.sock\nCredType=cred/munge\nAuthAltTypes=auth/jwt\n\
             AuthAltParameters=jwt_key={at}/jwt.key\nStateSaveLocation={at}/state\nSlurmdSpoolDir={at}/spool/%n\n\
             SlurmctldPidFile={at}/run/slurmctld.pid\nSlurmdPidFile={at}/run/slurmd.%n.pid\n\
             SlurmctldLogFile={at}/log/slurmctld.log\nSlurmdLogFile={at}/log/slurmd.%n.log\n\
             ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nMpiDefault=none\nSwitchType=switch/none\n\
             SelectType=select/cons_tres\nSelectTypeParameters=CR_Core_Memory\nSchedulerType=sched/backfill\n\
             PriorityType=priority/basic\nGresTypes=gpu\nAccountingStorageType=accounting_storage/none\nDefMemPerCPU=100\n\
             JobAcctGatherType=jobacct_gather/none\nJobCompType=jobcomp/none\nReturnToService=2\n\
             SlurmdParameters=config_overrides\nKillWait=5\nMinJobAge=5\nMaxJobCount=50000\nSlurmctldDebug=info\n\
             SlurmdDebug=error\nSchedulerParameters=default_queue_depth=1000,sched_interval=5,bf_interval=5\n",
            ports[0]
        );
        for node in 1..=NODES {
            let port = ports[node as usize];
            let line = format!(
                "NodeName=n{node} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs=64 Boards=1 SocketsPerBoard=2 \
                 CoresPerSocket=32 ThreadsPerCore=1 RealMemory=512000 Gres=gpu:a100:{DEVICES} State=UNKNOWN\n"
            );
            text.push_str(&line);
        }
        text.push_str("PartitionName=gpu Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO\n");
        fs::write(self.config(), text).unwrap();
        let last = DEVICES - 1;
        let gres = format!("AutoDetect=off\nNodeName=n[1-{NODES}] Name=gpu Type=a100 File={at}/dev/gpu[0-{last}]\n");
        fs::write(self.path("gres.conf"), gres).unwrap();
    }

    fn raise(&self) {
        let at = self.folder.path().to_str().unwrap();
        let config = self.config();
        let config = config.to_str().unwrap();
        let file = |name: &str| format!("{at}/{name}");
        run(
            "/usr/sbin/munged",
            &[
                "--force",
                &format!("--key-file={}", file("munge.key")),
                &format!("--socket={}", file("run/munge.sock")),
                &format!("--pid-file={}", file("run/munged.pid")),
                &format!("--log-file={}", file("log/munged.log")),
                &format!("--seed-file={}", file("run/munged.seed")),
            ],
        );
        run("/usr/sbin/slurmctld", &["-c", "-f", config]);
        for node in 1..=NODES {
            run("/usr/sbin/slurmd", &["-N", &format!("n{node}"), "-f", config]);
        }
        let up = || self.command("sinfo", &["-h", "-t", "idle", "-o", "%D"]).trim() == NODES.to_string();
        self.until("idle nodes", up);
        // it refuses to run as root
        run("chown", &["nobody", &file("rest")]);
        let child = Command::new("setpriv")
            .args(["--reuid=nobody", "--regid=nogroup", "--clear-groups", "/usr/sbin/slurmrestd", "-f", config])
            .args(["-a", "rest_auth/jwt", "-s", "openapi/v0.0.38", &format!("unix:{}", file("rest/socket"))])
            .env("SLURM_CONF", config)
            .env("SLURM_JWT", "daemon")
            .stdin(Stdio::null())
            .stdout(fs::File::create(file("log/slurmrestd.log")).unwrap())
            .stderr(fs::File::create(file("log/slurmrestd.err")).unwrap())
            .spawn()
            .unwrap();
        *self.rest.lock().unwrap() = Some(child);
        self.until("slurmrestd", || self.path("rest/socket").exists());
        let token = self.command("scontrol", &["token", "username=root", "lifespan=36000"]);
        fs::write(self.path("token"), token.trim().trim_start_matches("SLURM_JWT=")).unwrap();
    }

    fn until(&self, what: &str, look: impl Fn() -> bool) {
        let end = Instant::now() + PATIENCE;
        while !look() {
            let log = || fs::read_to_string(self.path("log/slurmctld.log")).unwrap_or_default();
            assert!(Instant::now() < end, "waited in vain for {what}:\n{}", log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The output of one of Slurm's commands.
    pub fn command(&self, program: &str, words: &[&str]) -> String {
        let output = Command::new(program).args(words).env("SLURM_CONF", self.config()).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    pub fn rest(&self) -> SlurmAccess {
        let url = format!("unix:{}", self.path("rest/socket").display());
        SlurmAccess::Rest { url, user: Some("root".into()), token_file: Some(self.path("token")) }
    }

    pub fn commands(&self) -> SlurmAccess {
        SlurmAccess::Commands { folder: None, config: Some(self.config()) }
    }

    pub fn settings(&self, access: SlurmAccess, home: &Path) -> RuntimeSettings {
        RuntimeSettings::Slurm(SlurmSettings {
            access,
            shared: home.join("runs"),
            supervisor: Some(self.supervisor.clone()),
            partition: Some("gpu".into()),
            account: None,
            gres: Some("a100".into()),
            poll: "200ms".parse().unwrap(),
            kill_wait: "5s".parse().unwrap(),
        })
    }

    pub fn runtime(&self, access: SlurmAccess, owner: &str, home: &Path) -> AnyRuntime {
        let settings = self.settings(access, home);
        settings.check().unwrap();
        AnyRuntime::open(&settings, Base { owner, runs: home, supervisor: None, log_limit_bytes: 4 << 20 }).unwrap()
    }
}

impl Drop for SlurmLab {
    fn drop(&mut self) {
        self.command("scancel", &["--user=root"]);
        if let Some(mut rest) = self.rest.lock().unwrap().take() {
            let _ = rest.kill();
            let _ = rest.wait();
        }
        let Ok(files) = fs::read_dir(self.path("run")) else { return };
        let files = files.flatten().filter(|file| file.path().extension().is_some_and(|e| e == "pid"));
        let mut pids: Vec<(bool, i32)> = files
            .filter_map(|file| {
                let pid = fs::read_to_string(file.path()).ok()?.trim().parse().ok()?;
                // what the others ask goes last
                Some((file.file_name() == "munged.pid", pid))
            })
            .collect();
        pids.sort_unstable();
        for (_, pid) in pids {
            let Some(pid) = rustix::process::Pid::from_raw(pid) else { continue };
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            let end = Instant::now() + Duration::from_secs(10);
            while crate::lives(pid.as_raw_nonzero().get()) && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(20));
            }
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

fn run(program: &str, words: &[&str]) {
    let output = Command::new(program).args(words).output().unwrap();
    assert!(output.status.success(), "{program} {words:?}: {}", String::from_utf8_lossy(&output.stderr));
}
