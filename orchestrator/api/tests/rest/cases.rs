//! Faults of other systems as their users reported them, at the interface: what happened there must not happen here.

use crate::{
    agents::{Agent, round, until},
    desk::{Rig, order},
    enrolment::{join, secured, sync, token},
    life::{create, state},
    stream::Events,
};
use axum::http::{Method, StatusCode};
use public_data::case;
use rhumb_control::testing::FakeAgent;
use serde_json::{Value, json};
use std::time::Duration;

fn shared(share: &str) -> String {
    format!(
        "name: shared\nclass: processing\ncomponents:\n  - name: job\n    need: {{accelerators: {{share: {share}, memory: 1GiB}}, \
         cpu: 1, memory: 1GiB}}\n    work: {{duration: 1s}}\n    run: {{command: [\"true\"]}}\n"
    )
}

/// H-O07: a share that is no number passes no check.
#[tokio::test(flavor = "multi_thread")]
async fn a_share_that_is_no_number_is_named_and_nothing_is_stored() {
    let Some(case) = case("H-O07") else { return };
    let rig = Rig::start().await;
    let mut agents = Agent::all();
    round(&rig, &mut agents).await;
    let values = case["gpu_fraction_values"].as_array().unwrap();
    assert!(values.len() > 8);
    for value in values {
        let value = value.as_str().unwrap();
        for written in [value.to_owned(), format!("\"{value}\""), format!("\"{value}%\"")] {
            for path in ["/v1/orders", "/v1/quotes"] {
                let (status, answer) = rig.call("t-acme", Method::POST, path, &shared(&written)).await;
                assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{path} {written}: {answer}");
                let pointers: Vec<_> = answer["errors"].as_array().unwrap().iter().map(|e| &e["pointer"]).collect();
                assert!(pointers.contains(&&json!("/components/0/need/accelerators/share")), "{written}: {answer}");
            }
        }
    }
    assert_eq!(rig.get("t-acme", "/v1/orders").await["items"], json!([]));
    let half = case["then_valid_order"]["gpu_fraction"].as_f64().unwrap();
    let id = create(&rig, &shared(&format!("{}%", half * 100.0))).await;
    until(&rig, &mut agents, &id, |o| state(o) == "completed").await;
}

/// H-S06: a rule for a name is none for the names that begin with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_tenants_token_is_none_for_names_that_begin_alike() {
    let Some(case) = case("H-S06") else { return };
    let rig = Rig::start().await;
    let own = case["token"].as_str().unwrap();
    let mut tokens = Vec::new();
    for tenant in case["tenants"].as_array().unwrap().iter().map(|t| t.as_str().unwrap()) {
        let body = json!({ "role": "tenant-admin", "tenant": tenant }).to_string();
        let (status, made) = rig.call("t-admin", Method::POST, "/v1/admin/tokens", &body).await;
        assert_eq!(status, StatusCode::CREATED, "{made}");
        tokens.push((tenant, made["token"].as_str().unwrap().to_owned()));
    }
    let mine = &tokens.iter().find(|(tenant, _)| *tenant == own).unwrap().1;
    let mut stream = Events::open(&rig, mine, None).await;
    let others = tokens.iter().filter(|(tenant, _)| *tenant != own);
    for (tenant, token) in others {
        let document = order(&format!("of-{tenant}"), "east");
        let (_, theirs) = rig.call(token, Method::POST, "/v1/orders", &document).await;
        let id = theirs["id"].as_str().unwrap();
        for rest in ["", "/explain", "/events", "/logs", "/usage"] {
            let path = format!("/v1/orders/{id}{rest}");
            assert_eq!(rig.call(mine, Method::GET, &path, "").await.0, StatusCode::NOT_FOUND, "{path}");
            assert_eq!(rig.call(token, Method::GET, &path, "").await.0, StatusCode::OK, "{path}");
        }
        for path in ["tenants", "quotas"] {
            let path = format!("/v1/admin/{path}/{tenant}");
            assert_eq!(rig.call(mine, Method::GET, &path, "").await.0, StatusCode::NOT_FOUND, "{path}");
        }
    }
    for list in ["orders", "routes?all=true", "admin/tokens", "admin/tenants", "admin/audit-log"] {
        let text = rig.get(mine, &format!("/v1/{list}")).await.to_string();
        for (tenant, _) in tokens.iter().filter(|(tenant, _)| *tenant != own) {
            assert!(
                !text.contains(&format!("\"{tenant}\"")) && !text.contains(&format!("of-{tenant}")),
                "{list}: {text}"
            );
        }
    }
    // the stream tells of one's own order and of no other
    let (_, last) = rig.call(mine, Method::POST, "/v1/orders", &order("of-mine", "east")).await;
    loop {
        let event = stream.next().await.unwrap();
        let text = event.data.to_string();
        assert!(!tokens.iter().any(|(tenant, _)| text.contains(&format!("of-{tenant}"))), "{text}");
        if event.name == "order" && event.data["id"] == last["id"] {
            break;
        }
    }
}

/// H-S12: an agent that was put out is served on no connection that was open before.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_was_put_out_is_refused_on_its_open_connection() {
    let Some(case) = case("H-S12") else { return };
    assert!(case["action"].as_str().unwrap().starts_with("revoke"), "{case}");
    let rig = Rig::start().await;
    let (url, _stop) = secured(&rig).await;
    let east = join(&rig, &token(&rig, &json!({"point": "east"})).await).await.ok().unwrap();
    let (client, mut agent) = (east.client(), FakeAgent::new("east"));
    assert_eq!(sync(&client, &url, &mut agent, 0).await.0, 200);
    let known: Value = rig.get("t-admin", "/v1/admin/points/east/certificates").await;
    let path = format!("/v1/admin/certificates/{}", known["items"][0]["serial"].as_str().unwrap());
    assert_eq!(rig.call("t-admin", Method::DELETE, &path, "").await.0, StatusCode::NO_CONTENT);
    let next = tokio::time::timeout(Duration::from_secs(1), sync(&client, &url, &mut agent, 0)).await;
    assert_eq!(next.expect("no answer within a second").0, 401);
}
