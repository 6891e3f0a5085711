//! Many runs at once.

use crate::{
    Program, Site, Stand,
    site::{key, pause},
};
use rhumb_runtimes::{How, Observed};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// For all of them together.
const PATIENCE: Duration = Duration::from_mins(10);

pub(crate) async fn many_runs_end_each_in_its_own_way<S: Stand>(stand: &S) {
    let mut site = Site::new(stand);
    let mut left = BTreeMap::new();
    for number in 0..stand.many() {
        let (key, code) = (key(), (number % 7) as i32);
        site.start(&key, &Program::Print(format!("{number}\n"), code)).await;
        left.insert(key, (number, code));
    }
    // half way a restart, as ever
    site.restart();
    let end = Instant::now() + PATIENCE;
    while !left.is_empty() {
        for (key, (number, code)) in left.clone() {
            if let Observed::Ended(ended) = site.observe(&key).await {
                assert_eq!((ended.how, ended.exit_code), (How::Exited, Some(code)), "{}", ended.message);
                assert_eq!(site.log(&key).await, format!("{number}\n"));
                left.remove(&key);
            }
        }
        assert!(Instant::now() < end, "{} are left", left.len());
        pause().await;
    }
    assert_eq!(site.owned().await.len(), stand.many());
}
