//! What runs print.

use crate::{Program, Site, Stand, site::key};
use rhumb_runtimes::Runtime;
use std::fmt::Write;

/// The limit that stands give to the output of one run.
const LIMIT: usize = 4 << 20;

async fn printed<S: Stand>(stand: &S, program: Program) -> String {
    let (mut site, key) = (Site::new(stand), key());
    site.start(&key, &program).await;
    site.ended(&key).await;
    site.log(&key).await
}

pub(crate) async fn both_streams_are_kept_in_order<S: Stand>(stand: &S) {
    let mut expected = String::new();
    let mut script = String::new();
    for number in 0..20 {
        let to = if number % 2 == 0 { "" } else { " >&2" };
        write!(script, "echo {number}{to}; ").unwrap();
        writeln!(expected, "{number}").unwrap();
    }
    let (mut site, key) = (Site::new(stand), key());
    let mut work = site.work(&Program::Print(expected.clone(), 0));
    work.command[2] = script;
    site.begin(&key, &work).await;
    site.ended(&key).await;
    assert_eq!(site.log(&key).await, expected);
}

pub(crate) async fn output_is_read_from_any_byte<S: Stand>(stand: &S) {
    let (mut site, key) = (Site::new(stand), key());
    site.start(&key, &Program::Print("0123456789".into(), 0)).await;
    site.ended(&key).await;
    for (from, most, expected) in [(0, 4, "0123"), (4, 4, "4567"), (8, 4, "89"), (10, 4, ""), (999, 4, "")] {
        assert_eq!(site.runtime.logs(&key, from, most).await.unwrap(), expected);
    }
}

pub(crate) async fn a_line_of_a_million_bytes_is_whole<S: Stand>(stand: &S) {
    let log = printed(stand, Program::Line(1 << 20)).await;
    assert_eq!(log.len(), (1 << 20) + 1);
    assert!(log.ends_with("x\n") && log[..1 << 20].bytes().all(|byte| byte == b'x'));
}

pub(crate) async fn output_beyond_the_limit_is_cut<S: Stand>(stand: &S) {
    let log = printed(stand, Program::Line(LIMIT + 1_000)).await;
    assert!(log.len() < LIMIT + 100, "{}", log.len());
    let end = format!("x\n[output beyond {LIMIT} bytes is not kept]\n");
    assert!(log.ends_with(&end), "{}", &log[log.len() - 80..]);
}

pub(crate) async fn bytes_that_are_no_text_are_replaced<S: Stand>(stand: &S) {
    let log = printed(stand, Program::Raw(r"a\000b\377c".into(), b"a\0b\xffc".to_vec())).await;
    assert_eq!(log, "a\u{fffd}b\u{fffd}c");
}

pub(crate) async fn characters_are_never_cut<S: Stand>(stand: &S) {
    let text = "算力网络 ü🦀 ".repeat(20);
    let (mut site, key) = (Site::new(stand), key());
    site.start(&key, &Program::Print(text.clone(), 0)).await;
    site.ended(&key).await;
    let mut read = String::new();
    while read.len() < text.len() {
        let part = site.runtime.logs(&key, read.len() as u64, 5).await.unwrap();
        assert!(!part.is_empty(), "stuck at byte {}", read.len());
        read.push_str(&part);
    }
    assert_eq!(read, text);
}

pub(crate) async fn a_run_nobody_knows_has_no_output<S: Stand>(stand: &S) {
    let mut site = Site::new(stand);
    assert_eq!(site.log(&key()).await, "");
}

pub(crate) async fn output_is_there_while_it_runs<S: Stand>(stand: &S) {
    let (mut site, key) = (Site::new(stand), key());
    // waits for the output of what still runs
    site.up(&key, &Program::Wait(0)).await;
    assert_eq!(site.log(&key).await, "up\n");
    site.release(&key);
    site.ended(&key).await;
    assert_eq!(site.log(&key).await, "up\ndown\n");
}

pub(crate) async fn output_stays_after_a_restart<S: Stand>(stand: &S) {
    let (mut site, key) = (Site::new(stand), key());
    site.up(&key, &Program::Wait(0)).await;
    site.restart();
    assert_eq!(site.log(&key).await, "up\n");
    site.release(&key);
    site.ended(&key).await;
    site.restart();
    assert_eq!(site.log(&key).await, "up\ndown\n");
}
