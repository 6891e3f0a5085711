//! Logs, traces: set up once, by the process that runs a role.
//!
//! Text on standard error, filtered by `RUST_LOG`; `RHUMB_LOG=json` makes it JSON. Spans go to an OpenTelemetry collector
//! only where the standard variables name one.

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::{Resource, propagation::TraceContextPropagator, trace::SdkTracerProvider};
use std::io::IsTerminal;
use tracing_subscriber::{EnvFilter, Layer, Registry, layer::SubscriberExt, util::SubscriberInitExt};

/// Sends what is left when it is dropped.
#[derive(Debug)]
#[must_use = "spans still in memory are sent when this is dropped"]
pub struct Telemetry(Option<SdkTracerProvider>);

impl Drop for Telemetry {
    fn drop(&mut self) {
        if let Some(provider) = self.0.take()
            && let Err(error) = provider.shutdown()
        {
            tracing::debug!(%error, "the last spans were not sent");
        }
    }
}

/// `role` becomes `service.name` unless `OTEL_SERVICE_NAME` says otherwise.
pub fn start(role: &'static str) -> anyhow::Result<Telemetry> {
    let set = |name| std::env::var(name).ok().filter(|v: &String| !v.is_empty());
    let filter = || match set("RUST_LOG") {
        Some(rules) => EnvFilter::try_new(rules),
        None => EnvFilter::try_new("info"),
    };
    let (filter, traced) = (filter()?, filter()?);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines: Box<dyn Layer<Registry> + Send + Sync> = if set("RHUMB_LOG").is_some_and(|v| v == "json") {
        lines.json().with_filter(filter).boxed()
    } else {
        let colour = std::io::stderr().is_terminal() && set("NO_COLOR").is_none();
        lines.with_ansi(colour).with_filter(filter).boxed()
    };
    let exported = set("OTEL_EXPORTER_OTLP_ENDPOINT").or_else(|| set("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")).is_some();
    let provider = if exported { Some(exporter(role)?) } else { None };
    let spans = provider
        .as_ref()
        .map(|provider| tracing_opentelemetry::layer().with_tracer(provider.tracer("rhumb")).with_filter(traced));
    tracing_subscriber::registry().with(lines).with(spans).try_init()?;
    Ok(Telemetry(provider))
}

fn exporter(role: &'static str) -> anyhow::Result<SdkTracerProvider> {
    opentelemetry::global::set_text_map_propagator(TraceContextPropagator::new());
    let exporter = SpanExporter::builder().with_http().build()?;
    let mut resource = Resource::builder();
    if std::env::var_os("OTEL_SERVICE_NAME").is_none() {
        resource = resource.with_service_name(role);
    }
    Ok(SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource.build()).build())
}
