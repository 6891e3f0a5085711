//! What runs find around them.

use crate::{Program, Site, Stand, site::key};
use rhumb_runtimes::{DeviceFamily, Runtime, RuntimeError, Work};
use std::collections::BTreeMap;

/// What a run of `command` prints; `None` from runtimes whose commands are not real.
async fn printed<S: Stand>(stand: &S, command: &[&str], change: impl FnOnce(&mut Work)) -> Option<String> {
    if !stand.is_real() {
        return None;
    }
    let (mut site, key) = (Site::new(stand), key());
    let mut work = site.work(&Program::Exit(0));
    work.env = BTreeMap::from([("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())]);
    work.command = command.iter().copied().map(str::to_owned).collect();
    change(&mut work);
    site.begin(&key, &work).await;
    let ended = site.ended(&key).await;
    assert_eq!(ended.exit_code, Some(0), "{ended:?}");
    Some(site.log(&key).await)
}

pub(crate) async fn the_environment_is_the_orders<S: Stand>(stand: &S) {
    let colour = |work: &mut Work| drop(work.env.insert("COLOUR".into(), "blue\ngreen".into()));
    let Some(text) = printed(stand, &["env", "-0"], colour).await else { return };
    // NUL cannot be in output and is replaced
    let names: Vec<&str> =
        text.split('\u{fffd}').filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
    assert!(text.contains("COLOUR=blue\ngreen\u{fffd}"), "{text}");
    for name in names {
        let known = ["PATH", "HOME", "COLOUR", "SLURM_JOB_ID", "SLURMD_NODENAME", "RAY_ADDRESS"];
        let shown = DeviceFamily::ALL.iter().any(|family| family.variable() == name);
        assert!(known.contains(&name) || name.starts_with("RHUMB_") || shown, "{name} is nobody's");
    }
}

pub(crate) async fn no_word_of_an_order_reaches_a_shell<S: Stand>(stand: &S) {
    let words = ["$(touch /tmp/never)", "`id`", "a b", "'", "\"", ";exit 1", "\\", "%n", "\n", "-", "算力", ""];
    let mut command = vec!["printf", "[%s]"];
    command.extend(words);
    let Some(text) = printed(stand, &command, |_| ()).await else { return };
    let expected = format!("[{}]", words.join("]["));
    assert_eq!(text, expected);
}

pub(crate) async fn a_run_begins_in_its_own_folder<S: Stand>(stand: &S) {
    let script = r#"test "$PWD" = "$HOME" && test -z "$(ls -A)" && echo mine > file && cat file"#;
    let Some(text) = printed(stand, &["sh", "-c", script], |_| ()).await else { return };
    assert_eq!(text, "mine\n");
}

pub(crate) async fn a_large_variable_arrives_whole<S: Stand>(stand: &S) {
    let large = |work: &mut Work| drop(work.env.insert("LARGE".into(), "y".repeat(100_000)));
    let Some(text) = printed(stand, &["sh", "-c", "echo ${#LARGE}"], large).await else { return };
    assert_eq!(text, "100000\n");
}

/// Which devices they are the site's scheduler may say; how many is the order's.
pub(crate) async fn devices_are_shown_by_their_familys_variable<S: Stand>(stand: &S) {
    let give = |work: &mut Work| {
        work.devices = [0, 1].into();
        work.family = Some(DeviceFamily::Cuda);
        work.env.insert("CUDA_VISIBLE_DEVICES".into(), "0,1".into());
    };
    let Some(text) = printed(stand, &["sh", "-c", "echo $CUDA_VISIBLE_DEVICES"], give).await else { return };
    let shown: Vec<u32> = text.trim().split(',').map(|index| index.parse().unwrap()).collect();
    assert!(shown.len() == 2 && shown[0] != shown[1], "{text}");
}

pub(crate) async fn what_cannot_be_run_is_refused<S: Stand>(stand: &S) {
    let site = Site::new(stand);
    let good = site.work(&Program::Exit(0));
    site.runtime.admit(&good).unwrap();
    let refused = |change: fn(&mut Work)| {
        let mut work = good.clone();
        change(&mut work);
        matches!(site.runtime.admit(&work), Err(RuntimeError::Admit { .. }))
    };
    assert!(refused(|work| work.command[2] = "a\0b".into()));
    assert!(refused(|work| work.command[2] = "x".repeat(2 << 20)));
    assert!(refused(|work| work.command = vec![String::new()]));
    assert!(refused(|work| drop(work.env.insert("A=B".into(), "c".into()))));
    assert!(refused(|work| drop(work.env.insert("A".into(), "c\0".into()))));
    assert!(refused(|work| work.checkpoint_signal = Some("SIGKILL".into())));
}
