//! What the authority signs, and what is read from it.
#![allow(clippy::unwrap_used)] // a test that fails stops

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use rhumb_identity::{AgentKey, Authority, Identity, JoinSecret, JoinToken, Serial, fingerprint};
use rhumb_model::PointName;
use rustls_pki_types::{CertificateDer, pem::PemObject};

const LIFE: SignedDuration = SignedDuration::from_hours(24);

fn now() -> Timestamp {
    "2026-12-01T00:00:00Z".parse().unwrap()
}

fn authority() -> Authority {
    Authority::create("rhumb.test", now(), SignedDuration::from_hours(24 * 3650)).unwrap().0
}

fn der(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
}

#[test]
fn a_certificate_names_the_point_that_the_authority_was_told_and_lives_as_long() {
    let (authority, point) = (authority(), PointName::new("shanghai-1").unwrap());
    let request = AgentKey::generate().unwrap().request().unwrap();
    let issued = authority.sign_agent(&request, &point, Serial::new([7; 16]), now(), LIFE).unwrap();
    let read = Identity::read(&der(&issued.pem), "rhumb.test").unwrap();
    assert_eq!((read.point, read.serial), (point, issued.serial));
    assert_eq!((read.not_before, read.not_after), (issued.not_before, issued.not_after));
    assert_eq!(issued.not_after, now() + LIFE);
    // half of a day and of the five minutes that clocks may be behind
    assert_eq!(Identity::read(&der(&issued.pem), "rhumb.test").unwrap().renew_at().to_string(), "2026-12-01T11:57:30Z");
}

#[test]
fn what_a_request_asks_for_beyond_its_key_is_not_given() {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut wish = rcgen::CertificateParams::new(vec!["orchestrator.example".to_owned()]).unwrap();
    wish.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    wish.subject_alt_names.push(rcgen::SanType::URI("spiffe://rhumb.test/point/other".try_into().unwrap()));
    let request = wish.serialize_request(&key).unwrap().pem().unwrap();
    let point = PointName::new("edge-1").unwrap();
    let issued = authority().sign_agent(&request, &point, Serial::new([1; 16]), now(), LIFE).unwrap();
    assert_eq!(Identity::read(&der(&issued.pem), "rhumb.test").unwrap().point, point);
    let (_, read) =
        x509_parser::parse_x509_certificate(&der(&issued.pem)).map(|(rest, c)| (rest.len(), c.is_ca())).unwrap();
    assert!(!read);
}

#[test]
fn a_request_whose_signature_does_not_match_its_key_is_refused() {
    let request = AgentKey::generate().unwrap().request().unwrap();
    let mut octets =
        rustls_pki_types::CertificateSigningRequestDer::from_pem_slice(request.as_bytes()).unwrap().to_vec();
    let last = octets.len() - 1;
    octets[last] ^= 1;
    let body = base64(&octets);
    let forged = format!("-----BEGIN CERTIFICATE REQUEST-----\n{body}\n-----END CERTIFICATE REQUEST-----\n");
    let point = PointName::new("edge-1").unwrap();
    assert!(authority().sign_agent(&forged, &point, Serial::new([1; 16]), now(), LIFE).is_err());
    assert!(authority().sign_agent("nonsense", &point, Serial::new([1; 16]), now(), LIFE).is_err());
}

/// RFC 4648, with padding.
fn base64(octets: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    octets.chunks(3).fold(String::new(), |all, three| {
        let bits = three.iter().fold(0_u32, |bits, octet| (bits << 8) | u32::from(*octet)) << (8 * (3 - three.len()));
        let letter =
            |at: usize| if at <= three.len() { LETTERS[(bits >> (18 - 6 * at)) as usize & 63] as char } else { '=' };
        (0..4).map(letter).fold(all, |all, letter| all + &letter.to_string())
    })
}

#[test]
fn a_certificate_of_another_domain_or_of_an_orchestrator_names_no_point() {
    let authority = authority();
    let request = AgentKey::generate().unwrap().request().unwrap();
    let point = PointName::new("edge-1").unwrap();
    let agent = authority.sign_agent(&request, &point, Serial::new([1; 16]), now(), LIFE).unwrap();
    assert!(Identity::read(&der(&agent.pem), "rhumb.other").is_err());
    let names = ["orchestrator.example".to_owned(), "10.0.0.1".to_owned()];
    let (server, _) = authority.sign_server(&names, Serial::new([2; 16]), now(), LIFE).unwrap();
    assert!(Identity::read(&der(&server.pem), "rhumb.test").is_err());
    assert!(Identity::read(&der(authority.certificate()), "rhumb.test").is_err());
}

#[test]
fn an_authority_that_is_loaded_again_signs_what_the_first_one_vouches_for() {
    let (first, key) = Authority::create("rhumb.test", now(), LIFE).unwrap();
    let again = Authority::load("rhumb.test", first.certificate(), &key).unwrap();
    assert_eq!(first.fingerprint(), again.fingerprint());
    assert_eq!(first.fingerprint(), fingerprint(&der(first.certificate())));
    assert!(Authority::load("rhumb.test", first.certificate(), "nonsense").is_err());
}

proptest! {
    #[test]
    fn serials_and_tokens_are_read_as_they_were_written(octets in any::<[u8; 16]>()) {
        let serial = Serial::new(octets);
        prop_assert_eq!(serial.to_string().parse::<Serial>().unwrap(), serial);
        let token = JoinToken { secret: JoinSecret::new(octets), fingerprint: "0f".repeat(32) };
        prop_assert_eq!(token.reveal().parse::<JoinToken>().unwrap(), token.clone());
        let shown = format!("{token:?}");
        prop_assert!(!shown.contains(token.secret.as_str()));
    }

    #[test]
    fn what_is_no_token_is_refused_without_a_panic(text in ".{0,140}") {
        prop_assert!(text.parse::<JoinToken>().is_err());
        let longer = format!("rhumbjoin_{text}");
        prop_assert!(longer.parse::<JoinToken>().is_err());
    }
}
