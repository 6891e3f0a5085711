//! The channel between two neighbours: TLS 1.3 (RFC 8446), whatever the links between them are.
//!
//! Each agent makes a key when it starts (raw, RFC 7250). Nobody vouches for it, and nobody need: once the channel stands
//! both sides prove the route's secret over what is unique to the channel (RFC 9266), so that whoever sits in the middle of
//! two channels is found out before a byte of a route passes.

use super::hop::Lost;
use ring::{rand::SystemRandom, signature::Ed25519KeyPair};
use rustls::{
    ClientConfig, DigitallySignedStruct, ServerConfig, SignatureScheme,
    client::{
        Resumption,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, ring as provider, verify_tls13_signature_with_raw_key},
    pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime},
    server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage},
    sign::CertifiedKey,
    version::TLS13,
};
use std::{fmt, sync::Arc};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

/// RFC 9266.
const BINDING: &[u8] = b"EXPORTER-Channel-Binding";
/// The name that every agent is called by: it stands for nothing.
const NAME: &str = "hop";

/// Both sides of what this agent speaks.
#[derive(Clone)]
pub(crate) struct Tls {
    connector: TlsConnector,
    acceptor: TlsAcceptor,
}

/// Why there can be no channels.
#[derive(Debug, thiserror::Error)]
#[error("cannot make a key for connections between agents: {0}")]
pub struct TlsError(String);

/// What nobody else's channel has.
pub(crate) type Binding = [u8; 32];

impl Tls {
    pub(crate) fn new() -> Result<Self, TlsError> {
        let shown = |error: rustls::Error| TlsError(error.to_string());
        let crypto = Arc::new(provider::default_provider());
        let pkcs8 =
            Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(|error| TlsError(error.to_string()))?;
        let key = provider::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(pkcs8.as_ref())).map_err(shown)?;
        let public = key.public_key().ok_or_else(|| TlsError("it has no public part".to_owned()))?;
        let own = CertifiedKey::new(vec![CertificateDer::from(public.as_ref().to_vec())], key);
        let mut server = ServerConfig::builder_with_provider(Arc::clone(&crypto))
            .with_protocol_versions(&[&TLS13])
            .map_err(shown)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(Arc::new(own))));
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        let mut client = ClientConfig::builder_with_provider(Arc::clone(&crypto))
            .with_protocol_versions(&[&TLS13])
            .map_err(shown)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Unvouched(crypto)))
            .with_no_client_auth();
        client.resumption = Resumption::disabled();
        client.enable_sni = false;
        Ok(Self { connector: Arc::new(client).into(), acceptor: Arc::new(server).into() })
    }

    pub(crate) async fn connect<S>(&self, stream: S) -> Result<(TlsStream<S>, Binding), Lost>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let name = ServerName::try_from(NAME).expect("three letters are a name");
        bound(TlsStream::Client(self.connector.connect(name, stream).await?))
    }

    pub(crate) async fn accept<S>(&self, stream: S) -> Result<(TlsStream<S>, Binding), Lost>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        bound(TlsStream::Server(self.acceptor.accept(stream).await?))
    }
}

fn bound<S>(stream: TlsStream<S>) -> Result<(TlsStream<S>, Binding), Lost> {
    let binding = match &stream {
        TlsStream::Client(own) => own.get_ref().1.export_keying_material([0; 32], BINDING, Some(b"")),
        TlsStream::Server(own) => own.get_ref().1.export_keying_material([0; 32], BINDING, Some(b"")),
    };
    let binding = binding.map_err(|error| Lost::Local(error.to_string()))?;
    Ok((stream, binding))
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls(..)")
    }
}

/// Takes any key, and makes sure that the other side has it.
#[derive(Debug)]
struct Unvouched(Arc<CryptoProvider>);

impl ServerCertVerifier for Unvouched {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("only TLS 1.3 is spoken".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let key = SubjectPublicKeyInfoDer::from(key.as_ref());
        verify_tls13_signature_with_raw_key(message, &key, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
