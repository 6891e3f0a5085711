use rhumb_placement::*;
use rhumb_placement::generate::{self, Size};
fn main() {
    let view = rhumb_federation::View::from_file(&generate::federation(Size::of(100), 42)).unwrap();
    let submit: jiff::Timestamp = "2026-12-01T03:17:00Z".parse().unwrap();
    for o in generate::orders(100, 25, 42) {
        let r = Request::new(&o, submit);
        let t = std::time::Instant::now();
        let d = decide(&view, &r, &Policy::default());
        let t1 = t.elapsed();
        let t = std::time::Instant::now();
        let d = explain(&view, &r, &Policy { counterfactuals: 0, ..Policy::default() }, d);
        let t2 = t.elapsed();
        let t = std::time::Instant::now();
        let d2 = explain(&view, &r, &Policy::default(), d.clone());
        let t3 = t.elapsed();
        let mut kinds = std::collections::BTreeMap::new();
        for s in &d.sites { *kinds.entry((format!("{:?}", s.verdict), s.reason.as_ref().map(|r| r.reason))).or_insert(0) += 1; }
        println!("{} decide {:?} verdicts {:?} all {:?} {:?} changes {} kinds {:?}", o.name, t1, t2, t3, d.outcome.as_ref().map(|_| ()).map_err(|r| r.iter().map(|r| r.reason).collect::<Vec<_>>()), d2.would_fit_if.len(), kinds);
    }
}
