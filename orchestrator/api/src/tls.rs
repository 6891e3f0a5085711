//! TLS for whoever is not on this machine: the orchestrator's certificate comes from the federation's authority, and an
//! agent is known by its own. Who comes without a certificate is served too, and needs another credential.

use rhumb_control::{Desk, enrolment::Trust, secrets::octets};
use rhumb_identity::{Identity, Serial};
use rhumb_store::Store;
use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring::default_provider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};
use std::{io, sync::Arc, time::Duration};
use tokio::sync::watch;

/// Who opened a connection, by a certificate that a trusted authority signed and whose time was not over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer(pub Identity);

/// What new connections are served with; replaced as authorities come and go.
#[derive(Debug, Clone)]
pub struct Tls {
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) domain: String,
}

/// The orchestrator makes itself a certificate that lives as long as an agent's and replaces it at half of that.
pub fn keep<S: Store>(desk: &Desk<S>, names: &[String]) -> io::Result<watch::Receiver<Tls>> {
    let mut trust = desk.trust();
    let life = desk.config().identity.certificate_life;
    let first = trust.borrow_and_update().clone().ok_or_else(|| io::Error::other("there is no authority yet"))?;
    let (sender, receiver) = watch::channel(make(desk, &first, names)?);
    let (desk, names) = (desk.clone(), names.to_vec());
    tokio::spawn(async move {
        let half = Duration::from_micros(life.micros() / 2).max(Duration::from_secs(1));
        let stop = desk.stopping();
        let mut bundle = first.bundle.clone();
        loop {
            let due = tokio::select! {
                () = stop.cancelled() => return,
                changed = trust.changed() => { if changed.is_err() { return } false }
                () = tokio::time::sleep(half) => true,
            };
            let Some(now) = trust.borrow_and_update().clone() else { continue };
            // who was revoked is looked up by every request
            if !due && now.bundle == bundle {
                continue;
            }
            match make(&desk, &now, &names) {
                Ok(tls) => {
                    bundle.clone_from(&now.bundle);
                    sender.send_replace(tls);
                }
                Err(error) => tracing::error!(%error, "no new certificate for this orchestrator: the old one stays"),
            }
        }
    });
    Ok(receiver)
}

fn make<S: Store>(desk: &Desk<S>, trust: &Trust, names: &[String]) -> io::Result<Tls> {
    let life = desk.config().identity.life();
    let serial = Serial::new(octets()?);
    let (issued, key) = trust.eldest.sign_server(names, serial, desk.now(), life).map_err(io::Error::other)?;
    let read = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).map_err(io::Error::other);
    let mut roots = RootCertStore::empty();
    for der in CertificateDer::pem_slice_iter(trust.bundle.as_bytes()) {
        roots.add(der.map_err(io::Error::other)?).map_err(io::Error::other)?;
    }
    let provider = Arc::new(default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .allow_unauthenticated()
        .build()
        .map_err(io::Error::other)?;
    let chain = vec![read(&issued.pem)?, read(trust.eldest.certificate())?];
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(io::Error::other)?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .map_err(io::Error::other)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Tls { config: Arc::new(config), domain: trust.domain.clone() })
}
