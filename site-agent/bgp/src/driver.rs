//! The daemon: asked what it has, told what to announce and what to withdraw.

use crate::{
    message::{
        AddPathRequest, AddPathResponse, DeletePathRequest, GetBgpResponse, ListPathRequest, ListPathResponse, Nothing,
        Path,
    },
    path::{Announcements, Seen, UNICAST, path, seen},
};
use ipnet::Ipv4Net;
use prost::Message;
use std::{collections::BTreeSet, time::Duration};
use tonic::{
    Request, Status,
    client::Grpc,
    codegen::http::uri::PathAndQuery,
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;

/// The daemon's table of all paths.
const GLOBAL: i32 = 0;

/// A GoBGP daemon. Calls wait for it at most as long as was said when it was opened.
#[derive(Debug)]
pub struct Bgp {
    grpc: Grpc<Channel>,
    url: String,
}

#[derive(Debug, thiserror::Error)]
pub enum BgpError {
    #[error("\"{url}\" is no address of a GoBGP daemon; write one such as http://127.0.0.1:50051")]
    Url { url: String, source: tonic::transport::Error },
    #[error("the GoBGP daemon at {url} does not do {call}; see that it runs and that its version is 3")]
    Call { url: String, call: &'static str, source: Box<Status> },
    #[error("the GoBGP daemon at {url} has no AS number yet; configure one")]
    NoAsn { url: String },
}

/// What came of stating announcements.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Applied {
    pub announced: BTreeSet<Ipv4Net>,
    pub withdrawn: BTreeSet<Ipv4Net>,
    /// Somebody else announces them from the same daemon: they are left alone.
    pub refused: BTreeSet<Ipv4Net>,
}

impl Applied {
    pub fn is_unchanged(&self) -> bool {
        self.announced.is_empty() && self.withdrawn.is_empty()
    }
}

impl Bgp {
    /// Connects when something is first asked, and again whenever that is necessary. Needs a tokio runtime.
    pub fn open(url: &str, patience: Duration) -> Result<Self, BgpError> {
        let endpoint = Endpoint::from_shared(url.to_owned());
        let endpoint = endpoint.map_err(|source| BgpError::Url { url: url.to_owned(), source })?;
        let channel = endpoint.connect_timeout(patience).timeout(patience).connect_lazy();
        Ok(Self { grpc: Grpc::new(channel), url: url.to_owned() })
    }

    /// What this driver announces there.
    pub async fn observe(&mut self) -> Result<Announcements, BgpError> {
        let asn = self.asn().await?;
        Ok(self.all(asn).await?.0)
    }

    /// Makes what this driver announces what `wanted` says. The same again changes nothing.
    pub async fn apply(&mut self, wanted: &Announcements) -> Result<Applied, BgpError> {
        let asn = self.asn().await?;
        let (own, foreign) = self.all(asn).await?;
        let mut applied = Applied::default();
        // what replaces a path is there before anything goes
        for (prefix, steer) in wanted {
            if foreign.contains(prefix) {
                applied.refused.insert(*prefix);
            } else if own.get(prefix) != Some(steer) {
                let request = AddPathRequest { table_type: GLOBAL, path: Some(path(asn, *prefix, steer)) };
                let _: AddPathResponse = self.ask("AddPath", request).await?;
                applied.announced.insert(*prefix);
            }
        }
        for (prefix, steer) in own.iter().filter(|(prefix, _)| !wanted.contains_key(*prefix)) {
            let path = Some(path(asn, *prefix, steer));
            let request = DeletePathRequest { table_type: GLOBAL, family: Some(UNICAST), path };
            let _: Nothing = self.ask("DeletePath", request).await?;
            applied.withdrawn.insert(*prefix);
        }
        Ok(applied)
    }

    async fn asn(&mut self) -> Result<u32, BgpError> {
        let answer: GetBgpResponse = self.ask("GetBgp", Nothing {}).await?;
        let asn = answer.global.map_or(0, |global| global.asn);
        if asn == 0 { Err(BgpError::NoAsn { url: self.url.clone() }) } else { Ok(asn) }
    }

    /// This driver's announcements, and prefixes that others announce from here.
    async fn all(&mut self, asn: u32) -> Result<(Announcements, BTreeSet<Ipv4Net>), BgpError> {
        let (mut own, mut foreign) = (Announcements::new(), BTreeSet::new());
        for path in self.paths().await? {
            match seen(asn, &path) {
                Seen::Own(prefix, steer) => drop(own.insert(prefix, steer)),
                Seen::Foreign(prefix) => drop(foreign.insert(prefix)),
                Seen::Other => {}
            }
        }
        Ok((own, foreign))
    }

    async fn paths(&mut self) -> Result<Vec<Path>, BgpError> {
        const CALL: &str = "ListPath";
        let failed =
            |url: &str, status: Status| BgpError::Call { url: url.to_owned(), call: CALL, source: Box::new(status) };
        let request = ListPathRequest { table_type: GLOBAL, family: Some(UNICAST) };
        let listed = async {
            self.ready().await?;
            let codec = ProstCodec::<ListPathRequest, ListPathResponse>::default();
            let answer = self.grpc.server_streaming(Request::new(request), method(CALL), codec).await;
            let mut stream = answer?.into_inner();
            let mut paths = Vec::new();
            while let Some(next) = stream.message().await? {
                paths.extend(next.destination.into_iter().flat_map(|d| d.paths));
            }
            Ok(paths)
        };
        let listed: Result<Vec<Path>, Status> = listed.await;
        listed.map_err(|status| failed(&self.url, status))
    }

    async fn ask<A, B>(&mut self, call: &'static str, request: A) -> Result<B, BgpError>
    where
        A: Message + Default + 'static,
        B: Message + Default + 'static,
    {
        let answered = async {
            self.ready().await?;
            let codec = ProstCodec::<A, B>::default();
            Ok(self.grpc.unary(Request::new(request), method(call), codec).await?.into_inner())
        };
        let answered: Result<B, Status> = answered.await;
        answered.map_err(|status| BgpError::Call { url: self.url.clone(), call, source: Box::new(status) })
    }

    async fn ready(&mut self) -> Result<(), Status> {
        self.grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))
    }
}

fn method(call: &str) -> PathAndQuery {
    PathAndQuery::try_from(format!("/apipb.GobgpApi/{call}")).expect("the calls' names are words")
}
