//! How neighbours prove to each other that they belong to a route.
//!
//! ```text
//! caller   -> HELLO      version, name, route, nonce
//! listener -> CHALLENGE  nonce, HMAC over both greetings: only to a name and route it expects
//! caller   -> PROOF      HMAC over both greetings
//!             TLS        from here on
//! caller   -> PROOF      HMAC over both greetings and what is unique to the channel
//! listener -> PROOF      the same
//! ```
//! Whoever is not expected hears nothing: the connection closes. Whoever only passes on what the two say is found out by the
//! last two proofs: it has two channels, and they have nothing in common.

use super::{
    context::Context,
    frame::{self, Frame, GREETING_BYTES_MAX, Hello},
    hop::{Hop, Lost, Part},
    secret::{Secret, Side, proof, proven, random},
    spec::RouteSpec,
    tls::Tls,
};
use bytes::{Bytes, BytesMut};
use rhumb_wire::PeerLink;
use tokio::{net::TcpStream, time::timeout};

/// Opens a hop to the next point of the route.
pub(crate) async fn call(context: &Context, route: &RouteSpec, next: &PeerLink) -> Result<Hop, Lost> {
    let Context { point: from, limits, tls, .. } = context;
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
        let hop = bind(hop, tls, Part::Calls, route.hop.as_ref(), &transcript).await?;
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

/// Lets the caller prove itself.
pub(crate) async fn challenge(
    mut hop: Hop,
    greeting: &Bytes,
    context: &Context,
    secret: Option<&Secret>,
) -> Result<Hop, Lost> {
    let nonce = nonce()?;
    let transcript: [&[u8]; 3] = [greeting, &nonce, context.point.as_str().as_bytes()];
    let mac = proof(secret, Side::Listener, &transcript);
    hop.writer.frame(&Frame::Challenge { nonce, mac }).await?;
    match hop.reader.frame().await? {
        Frame::Proof { mac } if proven(secret, Side::Caller, &transcript, &mac) => {
            Ok(bind(hop, &context.tls, Part::Listens, secret, &transcript).await?.trusted())
        }
        _ => Err(Lost::Protocol("the caller has not proved itself")),
    }
}

/// The rest of the conversation is within a channel, of which both prove that it ends at the other.
async fn bind(hop: Hop, tls: &Tls, part: Part, secret: Option<&Secret>, transcript: &[&[u8]; 3]) -> Result<Hop, Lost> {
    let (mut hop, binding) = hop.within(tls, part).await?;
    let [greeting, nonce, name] = *transcript;
    let transcript: [&[u8]; 4] = [greeting, nonce, name, &binding];
    let (own, other) = match part {
        Part::Calls => (Side::Caller, Side::Listener),
        Part::Listens => (Side::Listener, Side::Caller),
    };
    hop.writer.frame(&Frame::Proof { mac: proof(secret, own, &transcript) }).await?;
    match hop.reader.frame().await? {
        Frame::Proof { mac } if proven(secret, other, &transcript, &mac) => Ok(hop),
        _ => Err(Lost::Protocol("somebody stands between this point and the neighbour")),
    }
}

fn nonce() -> Result<[u8; 32], Lost> {
    random().ok_or_else(|| Lost::Local("the operating system gives no random numbers".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataplane::overlay::config::Limits;
    use std::time::Duration;
    use tokio::{
        io::copy_bidirectional,
        net::{TcpListener, TcpStream},
        try_join,
    };

    const TRANSCRIPT: [&[u8]; 3] = [b"greeting", b"nonce", b"name"];

    /// Two ends of one connection.
    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let called = TcpStream::connect(listener.local_addr().unwrap());
        let (called, accepted) = try_join!(called, listener.accept()).unwrap();
        (called, accepted.0)
    }

    /// Short enough that a side left alone gives up while the test waits.
    fn hop(stream: TcpStream) -> Hop {
        let limits = Limits { silence: Duration::from_secs(2), ..Limits::default() };
        Hop::new(stream, GREETING_BYTES_MAX, &limits).unwrap()
    }

    async fn both(
        caller: TcpStream,
        listener: TcpStream,
        secrets: [&Secret; 2],
    ) -> (Result<Hop, Lost>, Result<Hop, Lost>) {
        let (near, far) = (Tls::new().unwrap(), Tls::new().unwrap());
        let calls = bind(hop(caller), &near, Part::Calls, Some(secrets[0]), &TRANSCRIPT);
        let listens = bind(hop(listener), &far, Part::Listens, Some(secrets[1]), &TRANSCRIPT);
        tokio::join!(calls, listens)
    }

    #[tokio::test]
    async fn both_ends_of_one_channel_agree_and_go_on_in_it() {
        let secret = Secret::from_octets([7; 32]);
        let (caller, listener) = pair().await;
        let (near, far) = both(caller, listener, [&secret, &secret]).await;
        let (mut near, mut far) = (near.unwrap(), far.unwrap());
        near.writer.frame(&Frame::Ack(frame::Position { seq: 1, offset: 2 })).await.unwrap();
        assert_eq!(far.reader.frame().await.unwrap(), Frame::Ack(frame::Position { seq: 1, offset: 2 }));
        let (caller, listener) = pair().await;
        let other = Secret::from_octets([8; 32]);
        let (near, far) = both(caller, listener, [&secret, &other]).await;
        assert!(near.is_err() && far.is_err(), "another secret");
    }

    /// It passes on every word of the greeting, and every word within the two channels it ends.
    #[tokio::test]
    async fn somebody_in_the_middle_is_found_out() {
        let secret = Secret::from_octets([7; 32]);
        let ((caller, ear), (mouth, listener)) = (pair().await, pair().await);
        let middle = tokio::spawn(async move {
            let tls = Tls::new().unwrap();
            let (mut ear, _) = tls.accept(ear).await.unwrap();
            let (mut mouth, _) = tls.connect(mouth).await.unwrap();
            // ends as soon as one of the two has closed
            let _ = copy_bidirectional(&mut ear, &mut mouth).await;
        });
        let (near, far) = both(caller, listener, [&secret, &secret]).await;
        for end in [near, far] {
            let why = end.expect_err("not with somebody in between").to_string();
            assert!(why.contains("somebody stands between"), "{why}");
        }
        middle.abort();
    }
}
