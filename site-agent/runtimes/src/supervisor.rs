//! The supervisor: one small process per run, in its own session. It starts the command, keeps its output, measures it, stops
//! it when asked or when its lease ends, and writes down how it ended. It needs nobody: the agent may die and come back.

use crate::{
    cgroup::Group,
    family,
    folder::{Exit, Folder, Hold, Spec, Started, Supervisor},
    host::{self, BootTime},
    log, pinning,
    runtime::{DeviceFamily, How},
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fd::OwnedFd,
    io::Errno,
    process::{self, Pid, PidfdFlags, Signal, WaitId, WaitIdOptions},
};
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, ExitCode, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

/// First argument of the executable as a supervisor; the second is the run's folder.
pub const SUPERVISE: &str = "__supervise";

/// How often the folder is looked at.
const TICK: Duration = Duration::from_millis(50);
/// How often orphans that ended are reaped.
const REAP: Duration = Duration::from_secs(5);
/// For the agent, which holds the lock for an instant when it looks whether the supervisor lives.
const CLAIM: Duration = Duration::from_secs(2);
/// For output that a process outside the run may hold open.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Pause before the end is written again, where that failed.
const WRITE_AGAIN: Duration = Duration::from_secs(1);
/// What a shell answers for a command that is not there, and for one that may not be run.
const NOT_FOUND: i32 = 127;
const NOT_RUNNABLE: i32 = 126;

/// Tasks of a job learn from these which they are, in the whole job and on their node.
const TASK_VARIABLE: &str = "SLURM_PROCID";
const LOCAL_TASK_VARIABLE: &str = "SLURM_LOCALID";
/// The same of a task in a container of its own, which sees the devices of no other.
const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";
/// What a command may know of the scheduler above it, where the site's scheduler gives the devices.
const INHERITED: [&str; 3] = ["SLURM_JOB_ID", "SLURMD_NODENAME", "RAY_ADDRESS"];

/// The body of the supervisor process. It ends with the command's own exit code, for whoever else looks.
pub fn supervise_main(dir: &Path) -> ExitCode {
    let asked = Asked::listen();
    let done = asked.and_then(|asked| {
        let (folder, devices) = place(dir)?;
        supervise(&folder, devices, &asked)
    });
    match done {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("cannot supervise {}: {error}", dir.display());
            ExitCode::FAILURE
        }
    }
}

/// Which devices of those that the site gave to the job are this task's.
#[derive(Debug, Clone, Copy)]
enum Devices {
    All,
    Part { first: usize, count: usize },
}

/// The folder of this very task: `dir` itself, unless it starts a gang.
fn place(dir: &Path) -> io::Result<(Folder, Devices)> {
    let folder = Folder::new(dir);
    let Some(gang) = folder.gang()? else { return Ok((folder, Devices::All)) };
    let number = |name: &str| std::env::var(name).ok()?.parse::<usize>().ok();
    let (task, devices) = match (number(INDEX_VARIABLE), number(TASK_VARIABLE), number(LOCAL_TASK_VARIABLE)) {
        (Some(index), ..) => (index, Devices::All),
        (None, Some(task), Some(local)) => (task, Devices::Part { first: local * gang.devices, count: gang.devices }),
        _ => return Ok((folder, Devices::All)),
    };
    let missing = || io::Error::new(io::ErrorKind::NotFound, format!("the gang has no task {task}"));
    Ok((Folder::new(gang.folders.get(task).ok_or_else(missing)?), devices))
}

fn supervise(folder: &Folder, devices: Devices, asked: &Asked) -> io::Result<u8> {
    // fails only for the leader of a group, which signals to the agent's group do not reach either
    let _ = process::setsid();
    // what the command leaves behind becomes this process's child, so that none of it is missed
    process::set_child_subreaper(Some(process::getpid()))?;
    let Some(_alive) = claim(folder)? else { return Ok(0) };
    if folder.exit()?.is_some() || folder.supervisor()?.is_some() {
        return Ok(0);
    }
    let Some(spec) = folder.spec()? else { return Ok(0) };
    if let Some(demand) = demand(folder, &spec, asked) {
        let exit = never(How::Stopped, demand.why);
        let code = code(&exit);
        return folder.write_exit(&exit).map(|()| code);
    }
    let session = process::getsid(None)?.as_raw_nonzero().get();
    let (own, host_boot) = (process::getpid().as_raw_nonzero().get(), host::boot_id().to_owned());
    folder.write_supervisor(&Supervisor { run: spec.run, session, process: own, host_boot })?;
    let exit = if spec.command.is_empty() { hold(folder, &spec, asked) } else { run(folder, &spec, devices, asked) };
    while let Err(error) = folder.write_exit(&exit) {
        if !folder.path().exists() {
            break;
        }
        eprintln!("cannot write the end of the run: {error}");
        thread::sleep(WRITE_AGAIN);
    }
    Ok(code(&exit))
}

/// As a shell tells it: the code, or 128 and the signal.
fn code(exit: &Exit) -> u8 {
    let code = exit.exit_code.or(exit.signal.map(|signal| 128 + signal)).unwrap_or(128 + Signal::TERM.as_raw());
    u8::try_from(code).unwrap_or(u8::MAX)
}

/// The last signal by which the site asked for the end; 0: none. It is noted instead of ending this process. Commands begin with
/// the usual answers to signals.
struct Asked(Arc<AtomicUsize>);

impl Asked {
    fn listen() -> io::Result<Self> {
        let last = Arc::new(AtomicUsize::new(0));
        for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
            let number = signal.as_raw();
            signal_hook::flag::register_usize(number, Arc::clone(&last), number as usize)?;
        }
        Ok(Self(last))
    }

    fn heard(&self) -> Option<usize> {
        Some(self.0.load(Ordering::Relaxed)).filter(|&signal| signal > 0)
    }
}

fn claim(folder: &Folder) -> io::Result<Option<crate::folder::Claim>> {
    let until = Instant::now() + CLAIM;
    loop {
        match folder.claim()? {
            None if Instant::now() < until => thread::sleep(Duration::from_millis(5)),
            claim => return Ok(claim),
        }
    }
}

fn never(how: How, message: String) -> Exit {
    Exit { how, exit_code: None, signal: None, ran_us: 0, checkpoint: None, message }
}

/// Without a command, keeps what the site gave until it is to be given back.
fn hold(folder: &Folder, spec: &Spec, asked: &Asked) -> Exit {
    let began = Instant::now();
    let host_boot = host::boot_id().to_owned();
    let started = Started { group: -1, boottime: BootTime::now(), wall_us: host::wall_us(), host_boot };
    if let Err(error) = folder.write_started(&started) {
        eprintln!("cannot write that the run began: {error}");
    }
    loop {
        if let Some(demand) = demand(folder, spec, asked) {
            return Exit { ran_us: began.elapsed().as_micros() as u64, ..never(How::Stopped, demand.why) };
        }
        thread::sleep(TICK);
    }
}

/// Runs the command to its end; on return nothing of it is left.
fn run(folder: &Folder, spec: &Spec, devices: Devices, asked: &Asked) -> Exit {
    let group = Group::make(spec.run, &spec.limits);
    let begun = begin(folder, spec, devices, group.as_ref());
    let Begun { main, watch, began, output } = match begun {
        Ok(begun) => begun,
        Err(error) => {
            family::end_descendants(None);
            drop(group);
            let code = if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_RUNNABLE };
            let shown = spec.command.first().map(String::as_str).unwrap_or_default();
            let message = format!("cannot start {shown}: {error}");
            return Exit { exit_code: Some(code), ..never(How::Exited, message) };
        }
    };
    let started = Started {
        group: main.as_raw_nonzero().get(),
        boottime: BootTime::now(),
        wall_us: host::wall_us(),
        host_boot: host::boot_id().to_owned(),
    };
    if let Err(error) = folder.write_started(&started) {
        eprintln!("cannot write that the run began: {error}");
    }
    let mut ending: Option<Ending> = None;
    let mut reap_at = began + REAP;
    let ended = loop {
        if has_ended(&watch) {
            break Instant::now();
        }
        let now = Instant::now();
        if now >= reap_at {
            family::reap_orphans(main);
            reap_at = now + REAP;
        }
        match &mut ending {
            Some(ending) => {
                if asked.heard().is_some() {
                    ending.hurry(spec);
                }
                ending.go_on(main);
            }
            None => ending = demand(folder, spec, asked).map(|demand| Ending::begin(demand, spec, main)),
        }
    };
    let (exit_code, signal) = status(main);
    if let Some(group) = &group {
        group.kill();
    }
    family::end_descendants(Some(main));
    drop(group);
    let _ = output.recv_timeout(LAST_WORDS);
    let ran_us = ended.duration_since(began).as_micros() as u64;
    let (how, message) = match ending {
        Some(ending) => (How::Stopped, ending.why),
        None => (How::Exited, String::new()),
    };
    Exit { how, exit_code, signal, ran_us, checkpoint: folder.checkpoint(), message }
}

struct Begun {
    main: Pid,
    /// Readable once the command's first process has ended.
    watch: OwnedFd,
    began: Instant,
    /// Closed once the output has ended.
    output: mpsc::Receiver<()>,
}

fn begin(folder: &Folder, spec: &Spec, devices: Devices, group: Option<&Group>) -> io::Result<Begun> {
    let (program, arguments) =
        spec.command.split_first().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no command"))?;
    fs::create_dir_all(folder.work())?;
    let file = File::options().create(true).append(true).open(folder.log())?;
    let (reader, writer) = io::pipe()?;
    let limit = spec.log_limit_bytes;
    let (done, output) = mpsc::channel();
    thread::Builder::new().name("output".into()).spawn(move || {
        log::keep(reader, file, limit);
        drop(done);
    })?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs(of_image(spec))
        .envs(given(spec, devices))
        .current_dir(folder.work())
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer);
    pinning::pin(&spec.limits.processors);
    // what is started is born into the group that its parent is in
    let inside = group.map(Group::enter);
    let child = command.spawn();
    drop(inside);
    let child = child?;
    // spawn returns once the command itself runs
    let began = Instant::now();
    let main = Pid::from_child(&child);
    let watch = process::pidfd_open(main, PidfdFlags::empty())?;
    Ok(Begun { main, watch, began, output })
}

/// The variables of the spec, above those of the container's image where there is one.
fn of_image(spec: &Spec) -> BTreeMap<String, String> {
    let mut env = BTreeMap::new();
    if spec.inherit_image {
        let own = |name: &str| ["KUBERNETES_", "RHUMB_"].iter().any(|prefix| name.starts_with(prefix));
        env.extend(std::env::vars().filter(|(name, _)| !own(name) && name != "HOSTNAME" && name != INDEX_VARIABLE));
    }
    let path = env.get("PATH").cloned();
    env.extend(spec.env.clone());
    if let Some(path) = path {
        // what is installed in the image is what its user means
        env.entry("PATH".into()).and_modify(|own| *own = format!("{path}:{own}")).or_insert(path);
    }
    env
}

/// Variables that the site's scheduler gave, above those of the spec.
fn given(spec: &Spec, devices: Devices) -> Vec<(&'static str, String)> {
    if !spec.inherit_devices {
        return Vec::new();
    }
    let value = |name: &'static str| Some((name, std::env::var(name).ok()?));
    let shown = DeviceFamily::ALL.into_iter().filter_map(|family| value(family.variable()));
    let shown = shown.map(|(name, list)| match devices {
        Devices::All => (name, list),
        Devices::Part { first, count } => (name, list.split(',').skip(first).take(count).collect::<Vec<_>>().join(",")),
    });
    shown.chain(INHERITED.into_iter().filter_map(value)).collect()
}

/// Waits a tick at most.
fn has_ended(watch: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(watch, PollFlags::IN)];
    let tick = Timespec { tv_sec: 0, tv_nsec: i64::from(TICK.subsec_nanos()) };
    match poll(&mut fds, Some(&tick)) {
        Ok(ready) => ready > 0,
        Err(Errno::INTR) => false,
        Err(_) => {
            thread::sleep(TICK);
            false
        }
    }
}

/// Exit code or signal of the ended command, which stays unreaped: its number stays its group's until that is killed.
fn status(main: Pid) -> (Option<i32>, Option<i32>) {
    loop {
        match process::waitid(WaitId::Pid(main), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            Ok(Some(status)) => return (status.exit_status(), status.terminating_signal()),
            Err(Errno::INTR) => {}
            Ok(None) | Err(_) => return (None, None),
        }
    }
}

/// Why the run is to end, and when at the latest.
struct Demand {
    why: String,
    kill_at: Option<Instant>,
}

fn demand(folder: &Folder, spec: &Spec, asked: &Asked) -> Option<Demand> {
    if let Some(why) = folder.stop_reason() {
        return Some(Demand { why, kill_at: None });
    }
    if !folder.has_spec() {
        return Some(Demand { why: "the records of the run were removed".into(), kill_at: None });
    }
    if let Some(signal) = asked.heard() {
        let kill_at = left_by_site(spec);
        return Some(Demand { why: format!("the site asked for its end by signal {signal}"), kill_at });
    }
    // one that cannot be read is being looked at again in a moment
    let hold: Hold = folder.hold().ok().flatten()?;
    let (stop, kill) = hold.left(spec.inherit_devices, BootTime::now(), host::wall_us());
    stop.is_zero().then(|| Demand {
        why: "the lease ended without word from the orchestrator".into(),
        kill_at: Some(Instant::now() + kill),
    })
}

/// Until when all must be gone once the site has asked: a part of what it leaves is kept for writing down the end.
fn left_by_site(spec: &Spec) -> Option<Instant> {
    spec.site_grace_ms.map(|ms| Instant::now() + Duration::from_millis(ms * 3 / 4))
}

/// A run on its way out.
struct Ending {
    why: String,
    /// `None`: the polite signal was sent.
    term_at: Option<Instant>,
    /// `None`: the kill was sent.
    kill_at: Option<Instant>,
    is_hurried: bool,
}

impl Ending {
    fn begin(demand: Demand, spec: &Spec, main: Pid) -> Self {
        let now = Instant::now();
        let grace = Duration::from_millis(spec.grace_ms);
        let kill_at = demand.kill_at.unwrap_or(now + grace).min(now + grace);
        let checkpoint = spec.checkpoint_signal.and_then(Signal::from_named_raw);
        let term_at = match checkpoint {
            Some(signal) => {
                let _ = process::kill_process(main, signal);
                now + (kill_at - now) / 2
            }
            None => now,
        };
        let (term_at, kill_at) = (Some(term_at), Some(kill_at));
        let mut ending = Self { why: demand.why, term_at, kill_at, is_hurried: false };
        ending.go_on(main);
        ending
    }

    /// The site asks too, and may wait for less.
    fn hurry(&mut self, spec: &Spec) {
        if self.is_hurried {
            return;
        }
        self.is_hurried = true;
        if let (Some(kill_at), Some(left)) = (self.kill_at, left_by_site(spec)) {
            self.kill_at = Some(kill_at.min(left));
        }
    }

    /// Sends what is due. The command's first process is not reaped, so the group is still its own.
    fn go_on(&mut self, main: Pid) {
        let now = Instant::now();
        if self.term_at.is_some_and(|at| now >= at) {
            self.term_at = None;
            let _ = process::kill_process_group(main, Signal::TERM);
            // a stopped process hears nothing else
            let _ = process::kill_process_group(main, Signal::CONT);
        }
        if self.kill_at.is_some_and(|at| now >= at) {
            self.kill_at = None;
            let _ = process::kill_process_group(main, Signal::KILL);
        }
    }
}
