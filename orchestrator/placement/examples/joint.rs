use std::io::Read;
use rhumb_placement::batch::{instance, solve::{Budget, solve, answer_json}};
fn main() {
    let f = std::env::args().nth(1).unwrap();
    let mut s = String::new();
    let raw = std::fs::File::open(&f).unwrap();
    if f.ends_with(".gz") { flate2::read::GzDecoder::new(raw).read_to_string(&mut s).unwrap(); } else { let mut raw=raw; raw.read_to_string(&mut s).unwrap(); }
    let mut budget = Budget::default();
    let env = |k: &str| std::env::var(k).ok().and_then(|v| v.parse::<u64>().ok());
    if let Some(v)=env("ROUNDS") { budget.rounds = v as u32 }
    if let Some(v)=env("WORK") { budget.work = v*1_000_000 }
    if let Some(v)=env("SEED") { budget.seed = v }
    let mut out = vec![];
    for i in instance::read(&s).unwrap() {
        let t = std::time::Instant::now();
        let a = solve(&i, &budget).unwrap();
        let ms = t.elapsed().as_secs_f64()*1e3;
        eprintln!("{:24} {} {} nodes {} {:.1} ms", a.name, a.total, a.lower_bound, a.nodes, ms);
        out.push(answer_json(&a, ms));
    }
    println!("{}", serde_json::Value::Array(out));
}
