//! Two orchestrators on one PostgreSQL: one leads, the other stands by and takes over, whatever becomes of the first.

use rhumb_store::testing::PostgresServer;
use rustix::process::Signal;
use serde_json::json;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Instant,
};
use system_tests::{
    Cli,
    balancer::{Balancer, ask, status},
    cli::{binary, project},
    orders::{int, text},
    processes,
    remains::items,
    secs, wait_until,
};
use tempfile::TempDir;

const ADMIN: &str = "admin-0123456789abcdef0123456789abcdef";
const SITES: [&str; 2] = ["east", "west"];

const FEDERATION: &str = "currency: CNY
sites:
  - {name: east, jurisdiction: CN, prices: {cpu: 0.1 CNY}, nodes: [{count: 1, cpu: 64, memory: 64GiB}]}
  - {name: west, jurisdiction: CN, prices: {cpu: 0.2 CNY}, nodes: [{count: 1, cpu: 64, memory: 64GiB}]}
";

/// A process that ends with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Two orchestrators behind a balancer, and an agent at each site.
struct Pair {
    servers: [Option<Process>; 2],
    addresses: [String; 2],
    agents: Vec<Process>,
    cli: Cli,
    folder: TempDir,
    _database: PostgresServer,
    _runtime: tokio::runtime::Runtime,
}

impl Pair {
    /// The first leads, the second stands by. `None`: there is no PostgreSQL here.
    fn start() -> Option<Self> {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let database = runtime.block_on(PostgresServer::start()).expect("PostgreSQL starts")?;
        let url = runtime.block_on(database.database()).expect("a database is made");
        let folder = tempfile::Builder::new().prefix("rhumb-test-").tempdir().expect("a folder for temporary files");
        let addresses = [free_address(), free_address()];
        let balancer = Balancer::before(addresses.clone());
        let path = |name: &str| folder.path().join(name);
        write(&path("federation.yaml"), FEDERATION);
        write(&path("admin.token"), ADMIN);
        for site in SITES {
            write(&path(&format!("{site}.token")), &agent_token(site));
        }
        let token = |kind: &str, name: &str, file: PathBuf| json!({"file": file, "kind": kind, "subject": name});
        let mut tokens = vec![token("admin", "platform", path("admin.token"))];
        tokens.extend(SITES.map(|site| token("agent", site, path(&format!("{site}.token")))));
        for (number, address) in addresses.iter().enumerate() {
            let config = json!({
                "listen": address, "hosts": [balancer.address], "database": url, "federation": path("federation.yaml"),
                "secret_file": path("secret"), "tokens": tokens,
                // shorter than a take-over: a leader that counted its predecessor's silence would lose every site
                "times": {"lost_after": "2s"},
            });
            write(&path(&format!("server{number}.json")), &config.to_string());
        }
        let cli = Cli {
            url: format!("http://{}", balancer.address),
            token: ADMIN.to_owned(),
            data: folder.path().to_path_buf(),
            scratch: folder.path().to_path_buf(),
            inside: None,
        };
        let mut pair = Self {
            servers: [None, None],
            addresses,
            agents: Vec::new(),
            cli,
            folder,
            _database: database,
            _runtime: runtime,
        };
        pair.start_server(0);
        pair.becomes(0, 200);
        pair.start_server(1);
        pair.becomes(1, 503);
        pair.start_agents();
        Some(pair)
    }

    fn start_process(&self, name: &str, args: &[&str]) -> Process {
        let log = fs::File::options().create(true).append(true).open(self.folder.path().join(format!("{name}.log")));
        let mut command = Command::new(binary());
        command.args(args).current_dir(project()).stdin(Stdio::null()).stdout(Stdio::null());
        Process(command.stderr(log.expect("the folder can be written")).spawn().expect("rhumb can be started"))
    }

    fn start_server(&mut self, number: usize) {
        let config = self.folder.path().join(format!("server{number}.json")).display().to_string();
        let server = self.start_process(&format!("server{number}"), &["server", "--config", &config]);
        self.servers[number] = Some(server);
    }

    fn start_agents(&mut self) {
        for site in SITES {
            let path = |name: String| self.folder.path().join(name);
            let config = json!({
                "point": site, "orchestrator": self.cli.url, "token_file": path(format!("{site}.token")),
                "data_dir": path(site.to_owned()), "sync": {"backoff_max": "500ms"},
                "devices": {"source": "file", "nodes": [{"count": 1, "cpu": 64, "memory": "64GiB"}]},
            });
            let file = path(format!("agent-{site}.json"));
            write(&file, &config.to_string());
            let agent = self.start_process(site, &["agent", "--config", &file.display().to_string()]);
            self.agents.push(agent);
        }
        wait_until(secs(60), "both sites are ready", || {
            let listed = self.cli.run(&["site", "list"]);
            let ready = items(&listed.json).iter().filter(|s| s["state"] == "ready").count();
            if ready == SITES.len() { Ok(()) } else { Err(format!("{}{}", listed.stdout, listed.stderr)) }
        });
    }

    fn pid(&self, number: usize) -> u32 {
        self.servers[number].as_ref().expect("it was started").0.id()
    }

    fn signal(&self, number: usize, signal: Signal) {
        processes::signal(self.pid(number), signal).expect("it runs");
    }

    /// Waits until `/readyz` of an orchestrator answers so.
    fn becomes(&self, number: usize, wanted: u16) {
        wait_until(secs(60), &format!("orchestrator {number} answers {wanted}"), || {
            let found = status(&self.addresses[number], "/readyz");
            if found == Some(wanted) { Ok(()) } else { Err(format!("{found:?}; {}", self.log(number))) }
        });
    }

    fn log(&self, number: usize) -> String {
        fs::read_to_string(self.folder.path().join(format!("server{number}.log"))).unwrap_or_default()
    }

    /// Orders with a key, again until it is answered.
    fn order(&self, name: &str) -> String {
        let document = format!(
            "name: {name}\nclass: processing\ncomponents:\n  - {{name: worker, need: {{cpu: 1, memory: 64MiB}}, work: {{duration: 1s}}, \
             run: {{command: [/bin/echo, {name}]}}}}\n"
        );
        let file = self.cli.document(&format!("{name}.yaml"), &document);
        wait_until(secs(60), "the order is answered", || {
            let answer = self.cli.run(&["order", "create", "-f", &file, "--key", name]);
            if answer.code == 0 { Ok(text(&answer.json["id"])) } else { Err(answer.stderr) }
        })
    }

    fn orders(&self, name: &str, count: u32) -> Vec<String> {
        (0..count).map(|i| self.order(&format!("{name}-{i}"))).collect()
    }

    /// All of them ended well where they were begun, there are no others, and nothing is amiss.
    fn all_ended(&self, ids: &[String]) {
        for id in ids {
            let order = self.cli.wait(id, "completed", "60s");
            assert_eq!(int(&order["generation"]), 1, "no site was lost: {}", self.cli.story(id));
        }
        let listed = self.cli.ok(&["order", "list", "--all"]);
        assert_eq!(items(&listed).len(), ids.len(), "{listed}");
        let audit = self.cli.run(&["audit"]);
        assert_eq!((audit.code, &audit.json["clean"]), (0, &true.into()), "{}{}", audit.stdout, audit.stderr);
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        if thread::panicking() {
            for name in ["server0", "server1", "east", "west"] {
                let text = fs::read_to_string(self.folder.path().join(format!("{name}.log"))).unwrap_or_default();
                let lines: Vec<_> = text.lines().collect();
                println!("--- {name}\n{}", lines[lines.len().saturating_sub(40)..].join("\n"));
            }
        }
    }
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap_or_else(|e| panic!("cannot write {}: {e}", path.display()));
}

fn agent_token(site: &str) -> String {
    format!("agent-{site}-0123456789abcdef0123456789abcdef")
}

fn free_address() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    listener.local_addr().expect("it has an address").to_string()
}

#[test]
fn one_of_two_orchestrators_leads_and_the_other_takes_over() {
    let Some(mut pair) = Pair::start() else { return };
    who_stands_by_says_so(&pair);

    // killed, with orders at every stage and more on their way
    let mut ids = pair.orders("before", 4);
    let begun = Instant::now();
    let meanwhile = thread::scope(|scope| {
        let ordering = scope.spawn(|| pair.orders("meanwhile", 6));
        processes::kill(pair.pid(0));
        pair.becomes(1, 200);
        println!("killed: the other one led after {:?}", begun.elapsed());
        ordering.join().expect("orders are taken")
    });
    ids.extend(meanwhile);
    pair.all_ended(&ids);

    // frozen for longer than its lease, with a request that reaches it then
    pair.start_server(0);
    pair.becomes(0, 503);
    ids.extend(pair.orders("frozen", 2));
    let begun = Instant::now();
    pair.signal(1, Signal::STOP);
    pair.becomes(0, 200);
    println!("frozen: the other one led after {:?}", begun.elapsed());
    let document = "name: late\nclass: processing\ncomponents: [{name: worker, need: {cpu: 1, memory: 64MiB}, \
                    work: {duration: 1s}, run: {command: [/bin/true]}}]\n";
    let request = format!(
        "POST /v1/orders HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {ADMIN}\r\nContent-Type: application/yaml\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{document}",
        pair.addresses[1],
        document.len()
    );
    let answer = thread::scope(|scope| {
        let asked = scope.spawn(|| ask(&pair.addresses[1], &request, secs(30)));
        ids.extend(pair.orders("after", 2));
        pair.signal(1, Signal::CONT);
        asked.join().expect("it is asked").expect("it answers")
    });
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("standing by"), "{answer}");
    pair.becomes(1, 503);
    wait_until(secs(20), "it knows", || {
        if pair.log(1).contains("this orchestrator leads no more") { Ok(()) } else { Err(pair.log(1)) }
    });
    // whatever it was about to store is refused, and it is the next one to lead
    pair.all_ended(&ids);

    // told to end: it does not keep the other waiting
    ids.extend(pair.orders("leaving", 2));
    let begun = Instant::now();
    pair.signal(0, Signal::TERM);
    pair.becomes(1, 200);
    println!("told to end: the other one led after {:?}", begun.elapsed());
    let status = pair.servers[0].as_mut().map(|s| s.0.wait().expect("it ends"));
    assert!(status.is_some_and(|s| s.success()), "{status:?}");
    pair.all_ended(&ids);
}

fn who_stands_by_says_so(pair: &Pair) {
    let standby = &pair.addresses[1];
    assert_eq!(status(standby, "/healthz"), Some(200));
    assert_eq!(status(standby, "/readyz"), Some(503));
    let request = format!(
        "GET /v1/orders HTTP/1.1\r\nHost: {standby}\r\nAuthorization: Bearer {ADMIN}\r\nConnection: close\r\n\r\n"
    );
    let answer = ask(standby, &request, secs(10)).expect("it answers");
    let told = ["HTTP/1.1 503", "retry-after: 1", "application/problem+json", "standing by"];
    assert!(told.iter().all(|part| answer.contains(part)), "{answer}");
}
