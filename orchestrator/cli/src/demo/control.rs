//! The socket through which a running demo is changed: one JSON request per line, one JSON answer per line.

use super::{
    children::Children,
    layout::Layout,
    wan::{Wan, Way},
};
use crate::exit::CliError;
use rhumb_emulator::ShapePatch;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{
    fs::{self, File, Permissions},
    io,
    os::{fd::AsRawFd, unix::fs::PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixStream},
};
use tokio_util::sync::CancellationToken;

const MOST_LINE_BYTES: u64 = 64 << 10;
/// A stop of all children may take this long.
const ANSWER: Duration = Duration::from_secs(90);
/// What the kernel takes as a socket's path, less its end.
const MOST_PATH_BYTES: usize = 107;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    WanSet { link: String, way: Way, patch: ShapePatch },
    WanCut { link: String, way: Way },
    WanHeal { link: String, way: Way },
    WanList,
    Status,
    Stop,
    AgentStop { name: String },
    AgentStart { name: String },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Done(Value),
    Failed(String),
}

/// What requests act on.
#[derive(Debug)]
pub struct Controls {
    pub wan: Arc<Wan>,
    pub children: Arc<Children>,
    pub stop: CancellationToken,
    /// Cancelled when everything has been stopped.
    pub stopped: CancellationToken,
    pub url: std::sync::OnceLock<String>,
}

impl Controls {
    async fn carry_out(&self, request: Request) -> Result<Value, String> {
        let words = |e: rhumb_emulator::EmulatorError| e.to_string();
        let links = |links: Vec<super::wan::WanLink>| json!({ "items": links, "next": null });
        match request {
            Request::WanSet { link, way, patch } => self.wan.set(&link, way, patch).map(links).map_err(words),
            Request::WanCut { link, way } => self.wan.cut(&link, way).map(links).map_err(words),
            Request::WanHeal { link, way } => self.wan.heal(&link, way).map(links).map_err(words),
            Request::WanList => Ok(links(self.wan.list())),
            Request::Status => Ok(json!({
                "url": self.url.get(),
                "pid": std::process::id(),
                "children": self.children.status(),
            })),
            Request::Stop => {
                self.stop.cancel();
                self.stopped.cancelled().await;
                Ok(Value::Null)
            }
            Request::AgentStop { name } => self.child(&name, self.children.stop(&name).await),
            Request::AgentStart { name } => self.child(&name, self.children.start(&name).await),
        }
    }

    fn child(&self, name: &str, known: bool) -> Result<Value, String> {
        let status = self.children.status();
        if let Some(child) = status.iter().find(|c| c.name == name).filter(|_| known) {
            return Ok(json!(child));
        }
        let names: Vec<_> = status.iter().map(|c| c.name.as_str()).collect();
        Err(format!("the demo has no {name}: it has {}", names.join(", ")))
    }
}

/// Listens where only this user may ask.
pub fn listen(layout: &Layout) -> io::Result<UnixListener> {
    let path = layout.socket();
    match fs::remove_file(&path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let (short, _folder) = short(&path)?;
    let listener = UnixListener::bind(short)?;
    fs::set_permissions(&path, Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Answers until the demo has stopped.
pub async fn serve(listener: UnixListener, controls: Arc<Controls>) {
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted,
            () = controls.stopped.cancelled() => return,
        };
        if let Ok((stream, _)) = stream {
            let controls = Arc::clone(&controls);
            tokio::spawn(async move {
                // who asked may be gone
                let _ = converse(stream, &controls).await;
            });
        }
    }
}

async fn converse(stream: UnixStream, controls: &Controls) -> io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    loop {
        let mut line = String::new();
        if (&mut reader).take(MOST_LINE_BYTES).read_line(&mut line).await? == 0 {
            return Ok(());
        }
        let answer = match serde_json::from_str(&line) {
            Ok(request) => match controls.carry_out(request).await {
                Ok(done) => Answer::Done(done),
                Err(why) => Answer::Failed(why),
            },
            Err(error) => Answer::Failed(format!("the request cannot be read: {error}")),
        };
        let mut text = serde_json::to_vec(&answer)?;
        text.push(b'\n');
        writer.write_all(&text).await?;
    }
}

/// Asks the demo that runs in this folder.
pub async fn ask(layout: &Layout, request: &Request) -> Result<Value, CliError> {
    let shown = layout.root().display();
    let gone = |reason: String| CliError::Unreachable {
        what: format!("a demo in {shown}"),
        reason: format!("{reason}; start one with `rhumb demo`, or name its folder with --data"),
    };
    let connect = async {
        let (short, _folder) = short(&layout.socket())?;
        UnixStream::connect(short).await
    };
    let stream = connect.await.map_err(|e: io::Error| gone(e.to_string()))?;
    let talk = async {
        let (reader, mut writer) = stream.into_split();
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        writer.write_all(&line).await?;
        let mut answer = String::new();
        BufReader::new(reader).read_line(&mut answer).await?;
        Ok::<_, io::Error>(answer)
    };
    let answer = match tokio::time::timeout(ANSWER, talk).await {
        Ok(answer) => answer.map_err(|e| gone(e.to_string()))?,
        Err(_) => return Err(gone(format!("it did not answer within {} s", ANSWER.as_secs()))),
    };
    match serde_json::from_str(&answer) {
        Ok(Answer::Done(value)) => Ok(value),
        Ok(Answer::Failed(why)) => Err(CliError::Failed(why)),
        // it ended while it answered, which is what was asked
        Err(_) if answer.is_empty() && *request == Request::Stop => Ok(Value::Null),
        Err(e) => Err(gone(format!("its answer cannot be read: {e}"))),
    }
}

/// A path to the same socket that is short enough for the kernel; by way of the open folder where it is not.
fn short(path: &Path) -> io::Result<(PathBuf, Option<File>)> {
    if path.as_os_str().len() <= MOST_PATH_BYTES {
        return Ok((path.to_path_buf(), None));
    }
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::other("the socket's path is too long"));
    };
    let folder = File::open(folder)?;
    let short = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name);
    Ok((short, Some(folder)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::{layout::Saved, world::World};
    use rhumb_model::FederationFile;

    fn demo(root: &Path) -> (Layout, Arc<Controls>) {
        let (layout, lock) = Layout::open(root, false).unwrap();
        std::mem::forget(lock);
        let text = "currency: CNY\nsites: [{name: a}, {name: b}]\nlinks:\n  \
                    - {id: ab, from: a, to: b, both_ways: true, capacity: 20Mbps, latency: 5ms}\n";
        let world = World::new(FederationFile::read(text).unwrap()).unwrap();
        let server = "127.0.0.1:9".parse().unwrap();
        let (wan, _) = Wan::start(&world.links, &world.agents, &world.home, server, 1, &Saved::default()).unwrap();
        let controls = Arc::new(Controls {
            wan: Arc::new(wan),
            children: Arc::new(Children::new(layout.pids())),
            stop: CancellationToken::new(),
            stopped: CancellationToken::new(),
            url: std::sync::OnceLock::new(),
        });
        tokio::spawn(serve(listen(&layout).unwrap(), Arc::clone(&controls)));
        (layout, controls)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_running_demo_takes_requests_also_from_a_deep_folder() {
        let folder = tempfile::tempdir().unwrap();
        for root in [folder.path().join("x"), folder.path().join("y".repeat(120))] {
            let (layout, controls) = demo(&root);
            let patch = ShapePatch { latency_us: Some(200_000), ..ShapePatch::default() };
            let request = Request::WanSet { link: "ab".into(), way: Way::Both, patch };
            let links = ask(&layout, &request).await.unwrap();
            assert_eq!(links.pointer("/items/1/latency_us"), Some(&json!(200_000)));
            let error = ask(&layout, &Request::WanCut { link: "ac".into(), way: Way::Both }).await.unwrap_err();
            assert!(matches!(&error, CliError::Failed(m) if m.contains("ab")), "{error}");
            let error = ask(&layout, &Request::AgentStop { name: "c".into() }).await.unwrap_err();
            assert!(error.to_string().contains("no c"), "{error}");
            let mode = fs::metadata(layout.socket()).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            controls.stopped.cancel();
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn without_a_demo_the_answer_says_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let error = ask(&Layout::at(folder.path()), &Request::Status).await.unwrap_err();
        assert!(matches!(error, CliError::Unreachable { .. }) && error.to_string().contains("--data"), "{error}");
    }
}
