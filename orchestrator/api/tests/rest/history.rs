//! What is told of links beside their present figures.

use crate::{agents::Agent, desk::Rig};
use axum::http::{Method, StatusCode};

#[tokio::test(flavor = "multi_thread")]
async fn a_links_history_begins_with_the_minute_that_is_not_over() {
    let rig = Rig::start().await;
    for agent in &mut Agent::all() {
        let report = agent.report();
        assert_eq!(agent.post(&rig, &report).await.0, StatusCode::OK);
    }
    let found = rig.get("t-acme", "/v1/links/e-p/history").await;
    let items = found["items"].as_array().unwrap();
    assert_eq!(items.len(), 1, "{found:#}");
    let bands = serde_json::json!({ "min": 10_000, "p50": 10_200, "p95": 11_000, "p99": 11_500 });
    assert_eq!(items[0]["rtt_us"], bands);
    assert_eq!((&items[0]["sent"], &items[0]["received"], &items[0]["loss_ppm"]), (&50.into(), &50.into(), &0.into()));
    // of another time there is nothing
    let then = "/v1/links/e-p/history?from=2020-01-01T00:00:00Z&to=2020-01-02T00:00:00Z";
    assert_eq!(rig.get("t-acme", then).await["items"], serde_json::json!([]));
    let status = async |path: &str| rig.call("t-acme", Method::GET, path, "").await.0;
    assert_eq!(status("/v1/links/nowhere/history").await, StatusCode::NOT_FOUND);
    assert_eq!(status("/v1/links/e-p/history?points=0").await, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(status("/v1/links/e-p/history?points=2001").await, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(status("/v1/links/e-p/history?from=yesterday").await, StatusCode::BAD_REQUEST);
    assert_eq!(rig.call("", Method::GET, "/v1/links/e-p/history", "").await.0, StatusCode::UNAUTHORIZED);
}

/// Fault F45 for figures of probes: what is no count of microseconds is no figure.
#[tokio::test(flavor = "multi_thread")]
async fn f45_odd_numbers_in_figures_are_refused_and_change_nothing() {
    let rig = Rig::start().await;
    let mut agents = Agent::all();
    for agent in &mut agents {
        let report = agent.report();
        agent.post(&rig, &report).await;
    }
    let before = rig.get("t-acme", "/v1/links/e-p").await["rtt_us"].clone();
    let east = &mut agents[0];
    let whole = serde_json::to_string(&east.report()).unwrap();
    for odd in ["NaN", "-1", "1e308", "-0.0", "1.5", "\"1\"", "5e-324", "99999999999999999999"] {
        let body = whole.replacen("\"rtt_p50_us\":10200", &format!("\"rtt_p50_us\":{odd}"), 1);
        assert_ne!(body, whole);
        let (status, _) = rig.call("t-east", Method::POST, "/agent/v1/sync", &body).await;
        assert!(status.is_client_error(), "{odd}: {status}");
    }
    assert_eq!(rig.get("t-acme", "/v1/links/e-p").await["rtt_us"], before);
}
