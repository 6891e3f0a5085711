//! A job that ended or is gone, and what that says of its run.

use super::{Batch, Controller, JobState, LAST_WORD, MISSES, SiteJob, job::JobEnd};
use crate::{
    folder::{Exit, Folder, Job},
    runtime::{Ended, How, Observed},
};
use rhumb_wire::report::AssignmentKey;
use std::{io, time::Instant};

impl<C: Controller> Batch<C> {
    /// No job carries the run.
    pub(super) fn missing(&mut self, key: &AssignmentKey, folder: &Folder, job: Option<Job>) -> io::Result<Observed> {
        let Some(job) = job else {
            if let Some(why) = folder.stop_reason() {
                return unrun(folder, How::Stopped, why);
            }
            // without a job it waits for the rest of its gang, or was never submitted: to start it again is right for both
            return Ok(Observed::NotStarted);
        };
        let Some((at, _)) = self.seen else { return Ok(Observed::Starting { why: String::new() }) };
        let watch = self.watch.entry(key.clone()).or_default();
        if watch.looked != Some(at) {
            watch.looked = Some(at);
            watch.misses += 1;
        }
        let silent = *watch.silent.get_or_insert_with(Instant::now);
        if watch.misses < MISSES || silent.elapsed() < LAST_WORD {
            return super::running(folder);
        }
        // its supervisor may have had its last word meanwhile
        if let Some(ended) = folder.ended()? {
            return Ok(Observed::Ended(ended));
        }
        let message = format!("the site has no record of job {} any more, and it left none", job.id);
        match folder.stop_reason() {
            Some(why) if folder.supervisor()?.is_none() => unrun(folder, How::Stopped, why),
            _ => unrun(folder, How::Lost, message),
        }
    }

    /// The job ended. Its supervisor's word on it counts; without one, the scheduler's.
    pub(super) fn over(&mut self, key: &AssignmentKey, folder: &Folder, job: &SiteJob) -> io::Result<Observed> {
        let JobState::Ended { word, end } = &job.state else { return super::running(folder) };
        let began = folder.supervisor()?.is_some();
        let stop = folder.stop_reason();
        let watch = self.watch.entry(key.clone()).or_default();
        let silent = *watch.silent.get_or_insert_with(Instant::now);
        if began && silent.elapsed() < LAST_WORD {
            return super::running(folder);
        }
        if let Some(ended) = folder.ended()? {
            return Ok(Observed::Ended(ended));
        }
        let message = format!("job {} ended as {word} and left no record of its own", job.id);
        let (how, exit_code, signal, message) = match (*end, stop) {
            (_, Some(why)) => (How::Stopped, None, None, why),
            (JobEnd::Exited(code), None) => (How::Exited, Some(code), None, message),
            (JobEnd::Signalled(signal), None) => (How::Exited, None, Some(signal), message),
            (JobEnd::Taken, None) => (How::Stopped, None, None, message),
            (JobEnd::Lost, None) => (How::Lost, None, None, message),
        };
        let checkpoint = folder.checkpoint();
        if !folder.path().exists() {
            // the folder went with the disk: nothing is written where nobody looks
            return Ok(Observed::Ended(Ended {
                how,
                exit_code,
                signal,
                ran_us: 0,
                started_us: None,
                checkpoint,
                message,
            }));
        }
        folder.end(Exit { how, exit_code, signal, ran_us: 0, checkpoint, message }).map(Observed::Ended)
    }
}

fn unrun(folder: &Folder, how: How, message: String) -> io::Result<Observed> {
    let exit = Exit { how, exit_code: None, signal: None, ran_us: 0, checkpoint: folder.checkpoint(), message };
    folder.end(exit).map(Observed::Ended)
}
