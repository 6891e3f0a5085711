//! How neighbours prove to each other that they belong to a route.
//!
//! ```text
//! caller   -> HELLO      version, name, route, nonce
//! listener -> CHALLENGE  nonce, HMAC over both greetings: only to a name and route it expects
//! caller   -> PROOF      HMAC over both greetings
//! ```
//! Whoever is not expected hears nothing: the connection closes.

use super::{
    config::Limits,
    frame::{self, Frame, GREETING_BYTES_MAX, Hello},
    hop::{Hop, Lost},
    secret::{Secret, Side, proof, proven, random},
    spec::RouteSpec,
};
use bytes::{Bytes, BytesMut};
use rhumb_model::PointName;
use rhumb_wire::PeerLink;
use tokio::{net::TcpStream, time::timeout};

/// Opens a hop to the next point of the route.
pub(crate) async fn call(from: &PointName, route: &RouteSpec, next: &PeerLink, limits: &Limits) -> Result<Hop, Lost> {
    let unreached = |why: String| Lost::Unreached { to: next.to.to_string(), link: next.link.to_string(), why };
    let called = timeout(limits.connect, async {
        let stream = TcpStream::connect(&next.overlay).await.map_err(|error| unreached(error.to_string()))?;
        let mut hop = Hop::new(stream, GREETING_BYTES_MAX, limits)?;
        let hello = Hello { from: from.clone(), route: route.key.clone(), nonce: nonce()? };
        let mut greeting = BytesMut::new();
        frame::put(&Frame::Hello(hello), &mut greeting);
        hop.writer.raw(&greeting).await?;
        let Frame::Challenge { nonce, mac } = hop.reader.frame().await? else {
            return Err(Lost::Protocol("a greeting is answered by a challenge"));
        };
        let transcript: [&[u8]; 3] = [&greeting, &nonce, next.to.as_str().as_bytes()];
        if !proven(route.hop.as_ref(), Side::Listener, &transcript, &mac) {
            return Err(Lost::Protocol("the secret of the route is not known there"));
        }
        let mac = proof(route.hop.as_ref(), Side::Caller, &transcript);
        hop.writer.frame(&Frame::Proof { mac }).await?;
        Ok(hop.trusted().watched(route.silence))
    });
    match called.await {
        Err(_) => Err(unreached(format!("no answer within {} ms", limits.connect.as_millis()))),
        Ok(Err(lost @ Lost::Unreached { .. })) => Err(lost),
        Ok(Err(lost)) => Err(unreached(lost.to_string())),
        Ok(Ok(hop)) => Ok(hop),
    }
}

/// First word of a caller, as it came and as it reads.
pub(crate) async fn greeting(hop: &mut Hop) -> Result<(Bytes, Hello), Lost> {
    let whole = hop.reader.whole().await?;
    match frame::parse(&whole)? {
        Frame::Hello(hello) => Ok((whole, hello)),
        _ => Err(Lost::Protocol("a hop begins with a greeting")),
    }
}

/// Lets the caller prove itself. `here` is this point.
pub(crate) async fn challenge(
    mut hop: Hop,
    greeting: &Bytes,
    here: &PointName,
    secret: Option<&Secret>,
) -> Result<Hop, Lost> {
    let nonce = nonce()?;
    let transcript: [&[u8]; 3] = [greeting, &nonce, here.as_str().as_bytes()];
    let mac = proof(secret, Side::Listener, &transcript);
    hop.writer.frame(&Frame::Challenge { nonce, mac }).await?;
    match hop.reader.frame().await? {
        Frame::Proof { mac } if proven(secret, Side::Caller, &transcript, &mac) => Ok(hop.trusted()),
        _ => Err(Lost::Protocol("the caller has not proved itself")),
    }
}

fn nonce() -> Result<[u8; 32], Lost> {
    random().ok_or_else(|| Lost::Local("the operating system gives no random numbers".to_owned()))
}
