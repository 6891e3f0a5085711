//! Logs and traces: set up once, by the process that runs a role.
//!
//! Text on standard error, filtered by `RUST_LOG`; `RHUMB_LOG=json` makes it JSON. Spans go to an OpenTelemetry collector
//! only where the standard variables name one. A span that has a field `traceparent` (W3C Trace Context) belongs to that
//! trace, so that whoever has an order at hand adds to the trace of the request that made it.

use opentelemetry::{ContextGuard, propagation::TextMapPropagator, trace::TracerProvider as _};
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::{Resource, propagation::TraceContextPropagator, trace::SdkTracerProvider};
use std::{cell::RefCell, collections::HashMap, fmt, io::IsTerminal};
use tracing::{
    Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id},
};
use tracing_subscriber::{
    EnvFilter, Layer, Registry,
    layer::{Context, SubscriberExt},
    registry::LookupSpan,
    util::SubscriberInitExt,
};

/// The field that names the trace a span belongs to, and the header of the same content.
const TRACEPARENT: &str = "traceparent";

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
    let spans = provider.as_ref().map(|provider| spans(provider).with_filter(traced));
    tracing_subscriber::registry().with(lines).with(spans).try_init()?;
    Ok(Telemetry(provider))
}

fn exporter(role: &'static str) -> anyhow::Result<SdkTracerProvider> {
    let exporter = SpanExporter::builder().with_http().build()?;
    let mut resource = Resource::builder();
    if std::env::var_os("OTEL_SERVICE_NAME").is_none() {
        resource = resource.with_service_name(role);
    }
    Ok(SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource.build()).build())
}

/// What turns spans into those of OpenTelemetry, each in the trace that it names.
fn spans<S>(provider: &SdkTracerProvider) -> impl Layer<S> + use<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let export = tracing_opentelemetry::layer().with_tracer(provider.tracer("rhumb"));
    // a span takes its parent from the context that is current while it is made
    Enter.and_then(export).and_then(Leave)
}

thread_local! {
    static ENTERED: RefCell<Option<ContextGuard>> = const { RefCell::new(None) };
}

/// Makes the context that a new span names the current one, before its parent is looked up.
struct Enter;

/// Undoes that.
struct Leave;

impl<S: Subscriber> Layer<S> for Enter {
    fn on_new_span(&self, attributes: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        let mut named = Named(None);
        attributes.record(&mut named);
        if let Some(parent) = named.0 {
            let carrier = HashMap::from([(TRACEPARENT.to_owned(), parent)]);
            let context = TraceContextPropagator::new().extract(&carrier);
            ENTERED.set(Some(context.attach()));
        }
    }
}

impl<S: Subscriber> Layer<S> for Leave {
    fn on_new_span(&self, _: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        ENTERED.take();
    }
}

struct Named(Option<String>);

impl Visit for Named {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == TRACEPARENT {
            self.0 = Some(value.to_owned());
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == TRACEPARENT {
            // a displayed value comes this way
            self.0 = Some(format!("{value:?}").trim_matches('"').to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opentelemetry::{TraceId, trace::SpanId};
    use opentelemetry_sdk::{
        error::OTelSdkResult,
        trace::{SpanData, SpanExporter},
    };
    use std::sync::{Arc, Mutex};

    #[derive(Debug, Clone, Default)]
    struct Kept(Arc<Mutex<Vec<SpanData>>>);

    impl SpanExporter for Kept {
        async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
            self.0.lock().unwrap().extend(batch);
            Ok(())
        }
    }

    #[test]
    fn a_span_belongs_to_the_trace_that_it_names() {
        let kept = Kept::default();
        let provider = SdkTracerProvider::builder().with_simple_exporter(kept.clone()).build();
        let subscriber = tracing_subscriber::registry().with(spans(&provider));
        tracing::subscriber::with_default(subscriber, || {
            let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
            let run = tracing::info_span!("run", traceparent = Some(&parent.to_owned()));
            run.in_scope(|| drop(tracing::info_span!("inner")));
            drop(run);
            drop(tracing::info_span!("other"));
        });
        let found = kept.0.lock().unwrap();
        let of = |name: &str| found.iter().find(|s| s.name == name).unwrap();
        let trace = TraceId::from_hex("0af7651916cd43dd8448eb211c80319c").unwrap();
        assert_eq!(of("run").span_context.trace_id(), trace);
        assert_eq!(of("run").parent_span_id, SpanId::from_hex("b7ad6b7169203331").unwrap());
        assert_eq!(of("inner").span_context.trace_id(), trace);
        assert_ne!(of("other").span_context.trace_id(), trace);
    }
}
