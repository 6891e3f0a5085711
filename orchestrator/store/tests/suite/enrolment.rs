use crate::{bench::Bench, fixture::*};
use jiff::Timestamp;
use rhumb_store::{AuthorityRecord, CertificateRecord, Conflict, Intent, JoinTokenRecord, Outcome, Store as _};

fn token(point: &str, expires: Timestamp) -> JoinTokenRecord {
    JoinTokenRecord { sha256: [7; 32], point: site(point), most_devices: Some(8), created: at(0), expires, used: None }
}

fn certificate(number: u32, point: &str) -> CertificateRecord {
    CertificateRecord {
        serial: format!("{number:032x}"),
        point: site(point),
        most_devices: Some(8),
        issued: at(i64::from(number)),
        expires: at(1_000),
        revoked: None,
    }
}

fn enrol(number: u32, point: &str, when: Timestamp) -> Intent {
    Intent::Enrol { token: [7; 32], certificate: certificate(number, point), at: when }
}

pub async fn a_join_token_makes_one_certificate(bench: &Bench) {
    let store = &bench.store;
    world(store, vec![]).await;
    assert_eq!(refused(store, enrol(1, "alpha", at(1))).await, Conflict::JoinToken);
    done(store, Intent::PutJoinToken(token("alpha", at(100)))).await;
    assert_eq!(store.join_token(&[7; 32]).await.unwrap(), Some(token("alpha", at(100))));
    // for another point, or too late
    assert_eq!(refused(store, enrol(1, "beta", at(1))).await, Conflict::JoinToken);
    assert_eq!(refused(store, enrol(1, "alpha", at(100))).await, Conflict::JoinToken);
    let mut all = tokio::task::JoinSet::new();
    for n in 1..=30 {
        let store = store.clone();
        all.spawn(async move { store.commit(vec![enrol(n, "alpha", at(50))]).await.unwrap().remove(0) });
    }
    let mut joined = 0;
    for outcome in all.join_all().await {
        match outcome {
            Outcome::Done => joined += 1,
            Outcome::Refused(why) => assert_eq!(why, Conflict::JoinToken),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(joined, 1);
    assert_eq!(store.certificates(&site("alpha")).await.unwrap().len(), 1);
    assert_eq!(store.join_token(&[7; 32]).await.unwrap().unwrap().used, Some(at(50)));
}

pub async fn a_revoked_certificate_is_good_for_nothing(bench: &Bench) {
    let store = &bench.store;
    world(store, vec![]).await;
    done(store, Intent::PutJoinToken(token("alpha", at(100)))).await;
    done(store, enrol(1, "alpha", at(1))).await;
    let renew = |former: u32, number: u32, point: &str| Intent::Renew {
        former: format!("{former:032x}"),
        certificate: certificate(number, point),
    };
    done(store, renew(1, 2, "alpha")).await;
    let missing = |n: u32| Conflict::Missing(format!("certificate {n:032x} that is good"));
    assert_eq!(refused(store, renew(1, 3, "beta")).await, missing(1));
    done(store, Intent::Revoke { serial: format!("{:032x}", 1), at: at(5) }).await;
    // again changes nothing
    done(store, Intent::Revoke { serial: format!("{:032x}", 1), at: at(6) }).await;
    assert_eq!(refused(store, renew(1, 3, "alpha")).await, missing(1));
    let known = store.certificate(&format!("{:032x}", 1)).await.unwrap().unwrap();
    assert_eq!(known.revoked, Some(at(5)));
    assert_eq!(store.revoked(at(999)).await.unwrap(), [format!("{:032x}", 1)]);
    // its time is over by itself
    assert!(store.revoked(at(1_000)).await.unwrap().is_empty());
    let unknown = Intent::Revoke { serial: format!("{:032x}", 9), at: at(5) };
    assert!(matches!(refused(store, unknown).await, Conflict::Missing(_)));
    done(store, Intent::Forget { before: at(2_000), at: at(0) }).await;
    assert!(store.certificates(&site("alpha")).await.unwrap().is_empty());
    assert_eq!(store.join_token(&[7; 32]).await.unwrap(), None);
}

pub async fn the_newest_authority_stays(bench: &Bench) {
    let store = &bench.store;
    let authority = |name: &str, created| AuthorityRecord {
        fingerprint: name.repeat(64),
        certificate: format!("certificate {name}"),
        sealed_key: vec![0, 1, 255],
        created,
        retired: None,
    };
    let (first, second) = (authority("a", at(1)), authority("b", at(2)));
    done(store, Intent::PutAuthority(first.clone())).await;
    let retire =
        |record: &AuthorityRecord| Intent::RetireAuthority { fingerprint: record.fingerprint.clone(), at: at(9) };
    assert!(matches!(refused(store, retire(&first)).await, Conflict::Missing(_)));
    done(store, Intent::PutAuthority(second.clone())).await;
    done(store, Intent::PutAuthority(AuthorityRecord { certificate: "another".into(), ..second.clone() })).await;
    assert_eq!(store.authorities().await.unwrap(), [second.clone(), first.clone()]);
    assert!(matches!(refused(store, retire(&second)).await, Conflict::Missing(_)));
    done(store, retire(&first)).await;
    assert_eq!(store.authorities().await.unwrap(), [second]);
}
