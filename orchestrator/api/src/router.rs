//! Every route, in one place.

use crate::{
    console,
    guard::{Hosts, guard},
    limit::RateLimits,
    problem::Problem,
    routes::{self, ops::FourCache},
};
use axum::{
    Router,
    extract::{MatchedPath, Request},
    http::StatusCode,
    middleware,
    response::IntoResponse,
    routing::any,
};
use metrics_exporter_prometheus::PrometheusHandle;
use rhumb_control::{Desk, enrolment::Trust};
use rhumb_store::AnyStore;
use std::{sync::Arc, time::Duration};
use tokio::sync::Semaphore;
use tower_http::{catch_panic::CatchPanicLayer, trace::TraceLayer};
use utoipa::{
    Modify, OpenApi,
    openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme},
};
use utoipa_axum::{router::OpenApiRouter, routes};

/// What handlers share.
#[derive(Debug, Clone)]
pub struct App {
    pub desk: Desk<AnyStore>,
    pub limits: Arc<RateLimits>,
    pub metrics: Option<PrometheusHandle>,
    pub(crate) four: FourCache,
    /// Places for streams of events.
    pub(crate) streams: Arc<Semaphore>,
}

impl App {
    pub fn new(desk: Desk<AnyStore>, metrics: Option<PrometheusHandle>) -> Self {
        let limits = Arc::new(RateLimits::new(&desk.config().limits));
        let streams = Arc::new(Semaphore::new(desk.config().limits.streams));
        let app = Self { desk, limits, metrics, four: FourCache::default(), streams };
        app.tidy_limits();
        app
    }

    /// Whom the federation trusts.
    pub(crate) fn trust(&self) -> Result<Arc<Trust>, Problem> {
        self.desk.trust().borrow().clone().ok_or_else(|| Problem::bare(StatusCode::SERVICE_UNAVAILABLE))
    }

    fn tidy_limits(&self) {
        let (limits, stop) = (Arc::clone(&self.limits), self.desk.stopping());
        tokio::spawn(async move {
            let mut timer = tokio::time::interval(Duration::from_mins(1));
            loop {
                tokio::select! {
                    () = stop.cancelled() => return,
                    _ = timer.tick() => limits.tidy(),
                }
            }
        });
    }
}

/// Routes that need no credential.
pub const PUBLIC: &[&str] = &["/", "/healthz", "/readyz", "/openapi.json", "/docs", "/agent/v1/authority"];

struct Bearer;

impl Modify for Bearer {
    fn modify(&self, api: &mut utoipa::openapi::OpenApi) {
        let scheme = SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build());
        api.components.get_or_insert_default().add_security_scheme("bearer", scheme);
    }
}

#[derive(OpenApi)]
#[openapi(
    info(title = "Rhumb", description = "Orders for compute and the network that it needs, decided as one."),
    modifiers(&Bearer),
    security(("bearer" = [])),
    components(schemas(Problem))
)]
struct Api;

fn routes_by_noun() -> OpenApiRouter<App> {
    use routes::{admin, agent, enrolment, events, federation, ops, orders, paths, quotes, tenants, tokens};
    OpenApiRouter::with_openapi(Api::openapi())
        .routes(routes!(orders::list, orders::create))
        .routes(routes!(orders::get, orders::cancel, orders::amend))
        .routes(routes!(orders::explain))
        .routes(routes!(orders::history))
        .routes(routes!(orders::logs))
        .routes(routes!(orders::usage))
        .routes(routes!(quotes::create))
        .routes(routes!(quotes::get, quotes::end))
        .routes(routes!(federation::sites))
        .routes(routes!(federation::site))
        .routes(routes!(federation::links))
        .routes(routes!(federation::link))
        .routes(routes!(federation::link_history))
        .routes(routes!(federation::pairs))
        .routes(routes!(federation::transit))
        .routes(routes!(federation::regions))
        .routes(routes!(federation::datasets))
        .routes(routes!(federation::live_routes))
        .routes(routes!(paths::paths))
        .routes(routes!(ops::four))
        .routes(routes!(events::stream))
        .routes(routes!(admin::audit))
        .routes(routes!(admin::drain))
        .routes(routes!(admin::audit_log))
        .routes(routes!(tokens::list, tokens::create))
        .routes(routes!(tokens::revoke))
        .routes(routes!(tenants::list, tenants::create))
        .routes(routes!(tenants::get, tenants::close))
        .routes(routes!(tenants::quota, tenants::set_quota))
        .routes(routes!(enrolment::create_join_token))
        .routes(routes!(enrolment::certificates))
        .routes(routes!(enrolment::revoke))
        .routes(routes!(enrolment::rotate))
        .routes(routes!(enrolment::retire))
        .routes(routes!(agent::sync))
        .routes(routes!(enrolment::authority))
        .routes(routes!(enrolment::join))
        .routes(routes!(enrolment::renew))
        .routes(routes!(ops::metrics))
        .routes(routes!(ops::healthz))
        .routes(routes!(ops::readyz))
}

/// The description of the interface, as `/openapi.json` gives it.
pub fn openapi() -> utoipa::openapi::OpenApi {
    routes_by_noun().split_for_parts().1
}

pub fn router(app: App, hosts: Hosts) -> Router {
    let (router, api) = routes_by_noun().split_for_parts();
    let docs: Router<App> = utoipa_swagger_ui::SwaggerUi::new("/docs").url("/openapi.json", api).into();
    router
        .merge(docs)
        .fallback_service(any(console::file))
        .method_not_allowed_fallback(method_not_allowed)
        .with_state(app)
        .layer(CatchPanicLayer::custom(panicked))
        .layer(middleware::from_fn_with_state(hosts, guard))
        .layer(TraceLayer::new_for_http().make_span_with(span))
}

/// Without the query, which is the caller's business.
fn span(request: &Request) -> tracing::Span {
    let matched = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    let path = matched.unwrap_or_else(|| request.uri().path());
    let traceparent = request.headers().get("traceparent").and_then(|v| v.to_str().ok());
    tracing::info_span!("request", method = %request.method(), path, traceparent)
}

async fn method_not_allowed() -> Problem {
    Problem::bare(StatusCode::METHOD_NOT_ALLOWED)
}

#[allow(clippy::needless_pass_by_value)] // the signature tower-http asks for
fn panicked(_: Box<dyn std::any::Any + Send>) -> axum::response::Response {
    tracing::error!("a handler panicked");
    Problem::bare(StatusCode::INTERNAL_SERVER_ERROR).into_response()
}
