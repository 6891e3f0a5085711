//! A runtime behind a pointer.

use crate::{
    folder::Folder,
    runtime::{Listing, Observed, Runtime, RuntimeError, Work},
};
use futures::future::{BoxFuture, FutureExt};
use rhumb_wire::report::AssignmentKey;
use std::fmt;

/// [`Runtime`], with futures in boxes.
pub(crate) trait Erased: Send + Sync + fmt::Debug {
    fn erased_admit(&self, work: &Work) -> Result<(), RuntimeError>;
    fn erased_start<'a>(
        &'a mut self,
        key: &'a AssignmentKey,
        work: &'a Work,
    ) -> BoxFuture<'a, Result<(), RuntimeError>>;
    fn erased_observe<'a>(&'a mut self, key: &'a AssignmentKey) -> BoxFuture<'a, Result<Observed, RuntimeError>>;
    fn erased_logs<'a>(
        &'a mut self,
        key: &'a AssignmentKey,
        from: u64,
        most: usize,
    ) -> BoxFuture<'a, Result<String, RuntimeError>>;
    fn erased_stop<'a>(&'a mut self, key: &'a AssignmentKey, why: &'a str) -> BoxFuture<'a, Result<(), RuntimeError>>;
    fn erased_list_owned(&mut self) -> BoxFuture<'_, Result<Listing, RuntimeError>>;
    fn erased_folder(&self, key: &AssignmentKey) -> Folder;
}

impl<R: Runtime + Sync + fmt::Debug> Erased for R {
    fn erased_admit(&self, work: &Work) -> Result<(), RuntimeError> {
        Runtime::admit(self, work)
    }

    fn erased_start<'a>(
        &'a mut self,
        key: &'a AssignmentKey,
        work: &'a Work,
    ) -> BoxFuture<'a, Result<(), RuntimeError>> {
        Runtime::start(self, key, work).boxed()
    }

    fn erased_observe<'a>(&'a mut self, key: &'a AssignmentKey) -> BoxFuture<'a, Result<Observed, RuntimeError>> {
        Runtime::observe(self, key).boxed()
    }

    fn erased_logs<'a>(
        &'a mut self,
        key: &'a AssignmentKey,
        from: u64,
        most: usize,
    ) -> BoxFuture<'a, Result<String, RuntimeError>> {
        Runtime::logs(self, key, from, most).boxed()
    }

    fn erased_stop<'a>(&'a mut self, key: &'a AssignmentKey, why: &'a str) -> BoxFuture<'a, Result<(), RuntimeError>> {
        Runtime::stop(self, key, why).boxed()
    }

    fn erased_list_owned(&mut self) -> BoxFuture<'_, Result<Listing, RuntimeError>> {
        Runtime::list_owned(self).boxed()
    }

    fn erased_folder(&self, key: &AssignmentKey) -> Folder {
        Runtime::folder(self, key)
    }
}
