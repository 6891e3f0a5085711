//! A PostgreSQL of one's own for tests: started in a folder of its own, reached by a socket there, gone with its owner.

use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, postgres::PgConnectOptions};
use std::{
    io,
    os::unix::{
        fs::{MetadataExt as _, PermissionsExt as _},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// Set to 1 where a missing PostgreSQL must fail the tests.
pub const REQUIRE: &str = "RHUMB_REQUIRE_POSTGRES";

/// PostgreSQL refuses to run as root; nobody's user and group exist everywhere.
const NOBODY: u32 = 65_534;
const START: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub struct PostgresServer {
    child: Child,
    // after `child`: the folder goes when the server has ended
    folder: TempDir,
    databases: AtomicU32,
}

impl PostgresServer {
    /// `None`, with a notice on standard error: PostgreSQL is not installed.
    pub async fn start() -> io::Result<Option<Self>> {
        let Some(programs) = programs() else {
            if std::env::var(REQUIRE).is_ok_and(|v| v == "1") {
                return Err(io::Error::other("PostgreSQL is not installed, and the environment requires it"));
            }
            eprintln!(
                "skipped: initdb is neither in PATH nor in /usr/lib/postgresql/*/bin; install PostgreSQL to run this"
            );
            return Ok(None);
        };
        let folder = tempfile::Builder::new().prefix("rhumb-pg-").tempdir()?;
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o700))?;
        let root = std::fs::metadata(folder.path())?.uid() == 0;
        if root {
            std::os::unix::fs::chown(folder.path(), Some(NOBODY), Some(NOBODY))?;
        }
        let data = folder.path().join("data");
        let mut initdb = command(&programs.join("initdb"), root, folder.path());
        initdb.args(["--username=postgres", "--auth=trust", "--no-sync", "--locale=C", "--encoding=UTF8", "--pgdata"]);
        let made = initdb.arg(&data).output()?;
        if !made.status.success() {
            return Err(io::Error::other(format!("initdb failed: {}", String::from_utf8_lossy(&made.stderr))));
        }
        // the shell ends the server and its folder when its input closes: also when the owner was killed
        let mut shell = command(Path::new("/bin/sh"), root, folder.path());
        let script = r#""$0" "$@" & server=$!; cat; kill -QUIT "$server"; wait "$server"; rm -rf "$PWD""#;
        let log = std::fs::File::create(folder.path().join("log"))?;
        shell.args(["-c", script]).arg(programs.join("postgres")).arg("-D").arg(&data).arg("-k").arg(folder.path());
        shell.args(["-h", "", "-F", "-c", "max_connections=200", "-c", "deadlock_timeout=100ms"]);
        let child = shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log).spawn()?;
        let server = Self { child, folder, databases: AtomicU32::new(0) };
        server.wait_until_ready().await?;
        Ok(Some(server))
    }

    async fn wait_until_ready(&self) -> io::Result<()> {
        let deadline = Instant::now() + START;
        loop {
            match self.options("postgres").connect().await {
                Ok(connection) => return connection.close().await.map_err(io::Error::other),
                Err(error) if Instant::now() > deadline => {
                    let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
                    return Err(io::Error::other(format!("PostgreSQL did not start: {error}\n{log}")));
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }

    fn options(&self, database: &str) -> PgConnectOptions {
        PgConnectOptions::new().socket(self.folder.path()).username("postgres").database(database)
    }

    /// URL of a new, empty database.
    pub async fn database(&self) -> io::Result<String> {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        let mut connection = self.options("postgres").connect().await.map_err(io::Error::other)?;
        let sql = AssertSqlSafe(format!("CREATE DATABASE {name}"));
        sqlx::raw_sql(sql).execute(&mut connection).await.map_err(io::Error::other)?;
        connection.close().await.map_err(io::Error::other)?;
        Ok(format!("postgres:///{name}?host={}&user=postgres", self.folder.path().display()))
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // a server that does not end leaves its folder behind; there is nobody to tell
        self.child.wait().ok();
    }
}

/// The folder that `initdb` and `postgres` are in.
fn programs() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&path).find(|dir| dir.join("initdb").is_file());
    let found = in_path.and_then(|dir| dir.join("initdb").canonicalize().ok());
    if let Some(dir) = found.as_deref().and_then(Path::parent).filter(|dir| dir.join("postgres").is_file()) {
        return Some(dir.to_owned());
    }
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let bins = versions.filter_map(|v| Some(v.ok()?.path().join("bin")));
    bins.filter(|bin| bin.join("initdb").is_file() && bin.join("postgres").is_file())
        .max_by_key(|bin| bin.parent().and_then(|v| v.file_name()?.to_str()?.parse::<u32>().ok()))
}

fn command(program: &Path, root: bool, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder).env("LC_ALL", "C").env("TZ", "UTC");
    if root {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}
