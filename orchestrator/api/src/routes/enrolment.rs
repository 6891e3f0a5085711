//! How agents become known: `/agent/v1/authority|join|renew`, and what administrators do about it.

use super::{id, shown_once};
use crate::{
    auth::{Agent, Principal},
    body::{Document, read},
    problem::Problem,
    router::App,
    tls::Peer,
};
use axum::{
    Extension, Json,
    extract::{Path, Request, State},
    http::StatusCode,
    response::Response,
};
use jiff::Timestamp;
use rhumb_control::enrolment::Enrolled;
use rhumb_identity::{JoinSecret, Serial};
use rhumb_model::{Action, PointName, Span, document};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A request for a certificate is far smaller.
const MAX_REQUEST: usize = 64 << 10;

#[derive(Serialize, ToSchema)]
pub struct AuthorityView {
    /// PEM, the authority that signs first. Public.
    pub authorities: String,
    /// SHA-256 of the certificate of the authority that signs the orchestrators' own certificates, in hexadecimal: join
    /// tokens carry it.
    pub fingerprint: String,
}

/// Certificates of the authorities that the federation trusts. What it says is to be believed only after its fingerprint
/// was compared with one that came another way.
#[utoipa::path(get, path = "/agent/v1/authority", tag = "agents", security(()), responses((status = 200, body = AuthorityView)))]
pub async fn authority(State(app): State<App>) -> Result<Json<AuthorityView>, Problem> {
    let trust = app.trust()?;
    let fingerprint = trust.eldest.fingerprint().to_owned();
    Ok(Json(AuthorityView { authorities: trust.bundle.clone(), fingerprint }))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct JoinRequest {
    /// The join token's secret.
    pub secret: String,
    /// PKCS #10, PEM.
    pub request: String,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RenewRequest {
    /// PKCS #10, PEM: for a new key.
    pub request: String,
}

#[derive(Serialize, ToSchema)]
pub struct EnrolledView {
    /// The point that the agent is.
    pub point: String,
    /// PEM.
    pub certificate: String,
    /// PEM: who else may be trusted.
    pub authorities: String,
    #[schema(value_type = String, format = DateTime)]
    pub expires: Timestamp,
    /// Seconds from now until then.
    pub life_s: u64,
}

fn view(enrolled: Enrolled) -> Response {
    let Enrolled { point, certificate, authorities, expires, life_s } = enrolled;
    shown_once(EnrolledView { point: point.to_string(), certificate, authorities, expires, life_s })
}

/// A join token and a request for a certificate in, the certificate out; the token is used up by it.
#[utoipa::path(post, path = "/agent/v1/join", tag = "agents", security(()), request_body = JoinRequest,
    responses((status = 201, body = EnrolledView), (status = 401, body = Problem), (status = 422, body = Problem)))]
pub async fn join(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    // all who have no identity yet share one limit
    app.limits.check([0; 32])?;
    let body = read(request.into_body(), MAX_REQUEST).await?;
    // a body without a secret is a request without a credential
    let asked: JoinRequest = serde_json::from_slice(&body).map_err(|_| Problem::unauthorised())?;
    let secret: JoinSecret = asked.secret.parse().map_err(|_| Problem::unauthorised())?;
    Ok(view(app.desk.join(&secret, &asked.request).await?))
}

/// The next certificate, for an agent that comes with a good one.
#[utoipa::path(post, path = "/agent/v1/renew", tag = "agents", request_body = RenewRequest,
    responses((status = 201, body = EnrolledView), (status = 400, body = Problem), (status = 401, body = Problem), (status = 403, body = Problem), (status = 422, body = Problem)))]
pub async fn renew(
    State(app): State<App>,
    _: Agent,
    peer: Option<Extension<Peer>>,
    request: Request,
) -> Result<Response, Problem> {
    let Some(Extension(Peer(identity))) = peer else {
        return Err(Problem::forbidden("only an agent that comes with its certificate may renew it"));
    };
    let body = read(request.into_body(), MAX_REQUEST).await?;
    let asked: RenewRequest = serde_json::from_slice(&body)
        .map_err(|e| Problem::bad_request(format!("the body is not one to renew a certificate: {e}")))?;
    Ok(view(app.desk.renew_certificate(&identity, &asked.request).await?))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct JoinTokenRequest {
    /// The point that the agent is to be.
    pub point: String,
    /// How long the agent may take to join, such as `1h` (default); at most `7d`.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub life: Option<Span>,
    /// Accelerators that the site may ever report; absent: as many as it has.
    #[serde(default)]
    pub most_accelerators: Option<u32>,
}

#[derive(Serialize, ToSchema)]
pub struct JoinTokenView {
    /// Shown this once; only the hash of its secret is kept.
    pub token: String,
    pub point: String,
    #[schema(value_type = String, format = DateTime)]
    pub expires: Timestamp,
}

/// Makes a token by which the agent of a point may join, once.
#[utoipa::path(post, path = "/v1/admin/join-tokens", tag = "administration", request_body = JoinTokenRequest,
    responses((status = 201, body = JoinTokenView), (status = 401, body = Problem), (status = 403, body = Problem), (status = 422, body = Problem)))]
pub async fn create_join_token(
    State(app): State<App>,
    principal: Principal,
    body: Document,
) -> Result<Response, Problem> {
    let caller = principal.may(Action::OperateSites)?;
    let asked: JoinTokenRequest = document::read(&body.text).map_err(|e| Problem::document(&e))?;
    let point: PointName =
        asked.point.parse().map_err(|e: rhumb_model::name::NameError| Problem::field("/point", e.to_string()))?;
    let life = asked.life.unwrap_or(Span::from_micros(3_600 * 1_000_000));
    let (token, expires) = app.desk.create_join_token(&caller, &point, life, asked.most_accelerators).await?;
    Ok(shown_once(JoinTokenView { token: token.reveal(), point: asked.point, expires }))
}

#[derive(Serialize, ToSchema)]
pub struct CertificateView {
    /// 32 hexadecimal digits.
    pub serial: String,
    pub point: String,
    pub most_accelerators: Option<u32>,
    #[schema(value_type = String, format = DateTime)]
    pub issued: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub expires: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub revoked: Option<Timestamp>,
}

#[derive(Serialize, ToSchema)]
pub struct CertificatesView {
    pub items: Vec<CertificateView>,
}

/// Certificates of a point's agent, the newest first.
#[utoipa::path(get, path = "/v1/admin/points/{name}/certificates", tag = "administration", params(("name" = String, Path)),
    responses((status = 200, body = CertificatesView), (status = 401, body = Problem), (status = 403, body = Problem)))]
pub async fn certificates(
    State(app): State<App>,
    principal: Principal,
    Path(name): Path<String>,
) -> Result<Json<CertificatesView>, Problem> {
    let caller = principal.may(Action::OperateSites)?;
    let known = app.desk.certificates(&caller, &id("point", &name)?).await?;
    let items = known
        .into_iter()
        .map(|c| CertificateView {
            serial: c.serial,
            point: c.point.to_string(),
            most_accelerators: c.most_devices,
            issued: c.issued,
            expires: c.expires,
            revoked: c.revoked,
        })
        .collect();
    Ok(Json(CertificatesView { items }))
}

/// Revokes a certificate: it opens nothing from here on, on open connections too.
#[utoipa::path(delete, path = "/v1/admin/certificates/{serial}", tag = "administration", params(("serial" = String, Path)),
    responses((status = 204), (status = 401, body = Problem), (status = 403, body = Problem), (status = 404, body = Problem)))]
pub async fn revoke(
    State(app): State<App>,
    principal: Principal,
    Path(serial): Path<String>,
) -> Result<StatusCode, Problem> {
    let caller = principal.may(Action::OperateSites)?;
    let serial: Serial =
        serial.parse().map_err(|_| Problem::not_found("a certificate's number has 32 hexadecimal digits"))?;
    app.desk.revoke(&caller, serial).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Makes a new authority, which signs from here on; those before it stay trusted until they are retired.
#[utoipa::path(post, path = "/v1/admin/authorities", tag = "administration",
    responses((status = 201, body = AuthorityView), (status = 401, body = Problem), (status = 403, body = Problem)))]
pub async fn rotate(
    State(app): State<App>,
    principal: Principal,
) -> Result<(StatusCode, Json<AuthorityView>), Problem> {
    let caller = principal.may(Action::ManageAuthorities)?;
    let fingerprint = app.desk.rotate_authority(&caller).await?;
    let authorities = app.trust()?.bundle.clone();
    Ok((StatusCode::CREATED, Json(AuthorityView { authorities, fingerprint })))
}

/// Retires an authority that a newer one has followed: what it signed is worth nothing from here on.
#[utoipa::path(delete, path = "/v1/admin/authorities/{fingerprint}", tag = "administration", params(("fingerprint" = String, Path)),
    responses((status = 204), (status = 401, body = Problem), (status = 403, body = Problem), (status = 404, body = Problem)))]
pub async fn retire(
    State(app): State<App>,
    principal: Principal,
    Path(fingerprint): Path<String>,
) -> Result<StatusCode, Problem> {
    let caller = principal.may(Action::ManageAuthorities)?;
    app.desk.retire_authority(&caller, &fingerprint).await?;
    Ok(StatusCode::NO_CONTENT)
}
