//! An orchestrator with TLS and an agent that joins it, as an operator sets them up.

use serde_json::{Value, json};
use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
};
use system_tests::{
    Cli,
    cli::{binary, project},
    secs, wait_until,
};

const ADMIN: &str = "admin-0123456789abcdef0123456789abcdef";

const FEDERATION: &str = "currency: CNY
devices: {H100: {memory: 80GiB, fp16: 1}}
sites:
  - {name: east, tier: core, jurisdiction: CN, prices: {cpu: 0.1 CNY, H100: 20 CNY}, nodes: [{count: 1, cpu: 8, memory: 16GiB}]}
";

/// A process that ends with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(folder: &Path, name: &str, args: &[&str], environment: &[(&str, &str)]) -> Process {
    let log = fs::File::create(folder.join(format!("{name}.log"))).expect("the folder can be written");
    let mut command = Command::new(binary());
    command.args(args).current_dir(project()).envs(environment.iter().copied());
    Process(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().expect("rhumb can be started"))
}

fn server(folder: &Path, secure: &str) -> (Process, Cli) {
    let path = |name: &str| folder.join(name).display().to_string();
    fs::write(folder.join("federation.yaml"), FEDERATION).expect("the folder can be written");
    fs::write(folder.join("admin.token"), ADMIN).expect("the folder can be written");
    let config = json!({
        "listen": "127.0.0.1:0", "database": format!("sqlite:{}", path("rhumb.db")), "federation": path("federation.yaml"),
        "secret_file": path("secret"), "tokens": [{"file": path("admin.token"), "kind": "admin", "subject": "platform"}],
        // so short that an agent renews while the test looks
        "identity": {"certificate_life": "6s"},
        "tls": {"listen": secure, "names": ["127.0.0.1"]},
        "times": {"lost_after": "3s"},
    });
    fs::write(folder.join("server.json"), config.to_string()).expect("the folder can be written");
    let args = ["server", "--config", &path("server.json"), "--address-file", &path("address")];
    let server = start(folder, "server", &args, &[]);
    let address = wait_until(secs(60), "the orchestrator listens", || {
        fs::read_to_string(folder.join("address")).map_err(|e| e.to_string())
    });
    let cli = Cli {
        url: format!("http://{address}"),
        token: ADMIN.to_owned(),
        data: folder.to_path_buf(),
        scratch: folder.to_path_buf(),
        inside: None,
    };
    (server, cli)
}

fn free_port() -> String {
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    free.local_addr().expect("it has an address").to_string()
}

fn state(cli: &Cli) -> String {
    cli.ok(&["site", "get", "east"])["state"].as_str().unwrap_or_default().to_owned()
}

fn await_state(cli: &Cli, wanted: &str) {
    wait_until(secs(60), &format!("site east is {wanted}"), || {
        let state = state(cli);
        if state == wanted { Ok(()) } else { Err(state) }
    });
}

fn certificates(cli: &Cli) -> Vec<Value> {
    cli.ok(&["site", "certificates", "east"])["items"].as_array().cloned().unwrap_or_default()
}

fn log(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(format!("{name}.log"))).unwrap_or_default()
}

#[test]
fn an_agent_joins_with_a_token_renews_its_certificate_and_is_shut_out_when_that_is_revoked() {
    let folder = tempfile::Builder::new().prefix("rhumb-test-").tempdir().expect("a folder for temporary files");
    let folder = folder.path();
    let secure = free_port();
    let (_server, cli) = server(folder, &secure);
    let token = cli.ok(&["site", "token", "east", "--join", "--ceiling", "4"])["token"].as_str().map(str::to_owned);
    let token = token.expect("a token is shown");
    let url = format!("https://{secure}");
    let data = folder.join("agent").display().to_string();
    let join = ["agent", "--join", &url, "--data", &data];

    // a token for another orchestrator is not even shown to this one
    let (head, fingerprint) = token.rsplit_once('_').expect("a token ends with a fingerprint");
    let other = format!("{head}_{}", fingerprint.chars().rev().collect::<String>());
    let mut stranger = start(folder, "stranger", &join, &[("RHUMB_JOIN_TOKEN", &other)]);
    let ended = wait_until(secs(60), "an agent that is led astray ends", || {
        stranger.0.try_wait().map_err(|e| e.to_string())?.ok_or_else(|| "it runs".to_owned())
    });
    assert!(!ended.success() && log(folder, "stranger").contains("fingerprint"), "{}", log(folder, "stranger"));
    assert!(certificates(&cli).is_empty());

    let agent = start(folder, "agent", &join, &[("RHUMB_JOIN_TOKEN", &token)]);
    await_state(&cli, "ready");
    wait_until(secs(60), "the agent has its third certificate", || {
        let known = certificates(&cli).len();
        if known >= 3 { Ok(()) } else { Err(format!("{known}")) }
    });
    assert_eq!(state(&cli), "ready");

    // it starts again by what it keeps; the token is used up
    drop(agent);
    await_state(&cli, "lost");
    let agent = start(folder, "agent-again", &join, &[("RHUMB_JOIN_TOKEN", &token)]);
    await_state(&cli, "ready");

    let mode = fs::metadata(folder.join("agent/identity.json")).expect("the identity is kept").permissions();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o600);
    for name in ["server", "agent", "agent-again", "stranger"] {
        let secret = head.trim_start_matches("rhumbjoin_");
        assert!(!log(folder, name).contains(secret), "the log of {name} shows the token");
    }

    wait_until(secs(60), "everything the agent holds is revoked", || {
        for certificate in certificates(&cli) {
            if certificate["revoked"].is_null() {
                let serial = certificate["serial"].as_str().unwrap_or_default();
                let answer = cli.run(&["site", "revoke", serial]);
                // one whose time is over is forgotten
                assert!(answer.code == 0 || answer.stderr.contains("does not exist"), "{}", answer.stderr);
            }
        }
        let open = certificates(&cli).iter().filter(|c| c["revoked"].is_null()).count();
        if open == 0 { Ok(()) } else { Err(format!("{open} are good")) }
    });
    await_state(&cli, "lost");
    wait_until(secs(60), "the agent says why", || {
        let said = log(folder, "agent-again");
        if said.contains("revoked") { Ok(()) } else { Err(said) }
    });
    drop(agent);
}
