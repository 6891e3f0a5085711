//! Netlink: requests that are acknowledged, dumps, and the translation of objects into messages and back.

mod address;
mod gates;
mod link;
mod route;
mod rule;
mod shaper;

pub(crate) use address::addresses;
pub(crate) use gates::Gates;
pub(crate) use link::{Seen, links};
pub(crate) use route::routes;
pub(crate) use rule::rules;
pub(crate) use shaper::{ClassCounts, shapers};

use futures::StreamExt;
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use rtnetlink::Handle;
use std::io;

/// What a request does with what is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// It must not be there.
    New,
    /// It takes its place.
    Put,
    /// It must be there, or it is a removal.
    Act,
}

impl Mode {
    fn flags(self) -> u16 {
        match self {
            Self::New => NLM_F_CREATE | NLM_F_EXCL,
            Self::Put => NLM_F_CREATE | NLM_F_REPLACE,
            Self::Act => 0,
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Socket(pub(crate) Handle);

impl Socket {
    /// Sends one request and waits for its acknowledgement.
    pub(crate) async fn ask(&mut self, message: RouteNetlinkMessage, mode: Mode) -> io::Result<()> {
        let mut request = NetlinkMessage::from(message);
        request.header.flags = NLM_F_REQUEST | NLM_F_ACK | mode.flags();
        let mut answers = self.0.request(request).map_err(|_| closed())?;
        while let Some(answer) = answers.next().await {
            if let NetlinkPayload::Error(error) = answer.payload
                && error.code.is_some()
            {
                return Err(error.to_io());
            }
        }
        Ok(())
    }

    /// Everything of one kind.
    pub(crate) async fn dump(&mut self, message: RouteNetlinkMessage) -> io::Result<Vec<RouteNetlinkMessage>> {
        self.read(message, NLM_F_DUMP).await
    }

    /// One thing.
    pub(crate) async fn get(&mut self, message: RouteNetlinkMessage) -> io::Result<Vec<RouteNetlinkMessage>> {
        self.read(message, 0).await
    }

    async fn read(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<Vec<RouteNetlinkMessage>> {
        let mut request = NetlinkMessage::from(message);
        request.header.flags = NLM_F_REQUEST | flags;
        let mut answers = self.0.request(request).map_err(|_| closed())?;
        let mut all = Vec::new();
        while let Some(answer) = answers.next().await {
            match answer.payload {
                NetlinkPayload::InnerMessage(message) => all.push(message),
                NetlinkPayload::Error(error) if error.code.is_some() => return Err(error.to_io()),
                _ => {}
            }
        }
        Ok(all)
    }
}

fn closed() -> io::Error {
    io::Error::other("the netlink socket is closed")
}

/// What is not there need not be removed.
pub(crate) fn gone(result: io::Result<()>) -> io::Result<()> {
    match result {
        // no such entry, no such process (routes), no such device, no such address
        Err(error) if matches!(error.raw_os_error(), Some(2 | 3 | 19 | 99)) => Ok(()),
        other => other,
    }
}

/// What is there already need not be made.
pub(crate) fn there(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}
