//! Measurements in the form of OpenTelemetry, sent to a collector: OTLP over HTTP, as JSON.
//!
//! Every daemon sends those of its node, so nothing reads all of them. Counts and histograms are sums since their process
//! began: what a collector did not take is in the next request, and nothing waits for it.

use std::time::Duration;

use helio_config::table::{OTLP_METRICS, OTLP_METRICS_EVERY_S};
use helio_env::{clock, settings};
use helio_observer::collector::{Address, Failure};
use helio_proto::inspect::{Answer, Metric, MetricKind, Series};
use serde_json::{Value, json};

use super::reader::Reader;
use super::text;

/// The path at which collectors take measurements.
const PATH: &str = "/v1/metrics";
/// Sums since their process began.
const CUMULATIVE: u32 = 2;

/// The collector of measurements, and the time between two reports to it.
#[derive(Debug)]
pub(crate) struct Export {
    to: Address,
    every: Duration,
}

impl Export {
    /// The export that the environment asks for; `None`: there is none.
    ///
    /// # Errors
    /// A sentence for the user: that is not an address, or not a time.
    pub(crate) fn from_environment() -> Result<Option<Self>, String> {
        let Some(url) = settings::text(&OTLP_METRICS) else { return Ok(None) };
        let wrong = |error| format!("{}: {error}", OTLP_METRICS.row.name);
        let to = Address::parse(url.trim()).map_err(wrong)?.or_at(PATH);
        let every = Duration::from_secs(settings::read(&OTLP_METRICS_EVERY_S)?);
        Ok(Some(Self { to, every }))
    }

    /// Sends for as long as the runtime lives.
    pub(super) async fn keep(self, reader: Reader) {
        let mut is_told = false;
        let mut tick = tokio::time::interval(self.every);
        // A collector that was slow does not get several reports at once for it.
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            let Some(answers) = reader.scrape().await else { return };
            let body = request(&answers, &reader.session_name, clock::unix_ms());
            let to = self.to.url();
            match self.to.post(body.to_string().as_bytes()).await {
                Ok(()) if is_told => {
                    is_told = false;
                    tracing::info!(to, "the collector takes measurements again");
                }
                Ok(()) => {}
                Err(Failure::Refused(error) | Failure::Unanswered(error)) if !is_told => {
                    is_told = true;
                    tracing::warn!(to, error, "the collector does not take measurements");
                }
                Err(_) => {}
            }
        }
    }
}

/// Returns the body of a request: a resource for each process.
fn request(answers: &[Answer], session_name: &str, now_ms: u64) -> Value {
    let at = (now_ms * 1_000_000).to_string();
    let resource = |answer: &Answer| {
        let metrics = answer.metrics.iter().filter_map(|metric| shown(metric, &at));
        let metrics: Vec<Value> = metrics.collect();
        let origin = text::origin(answer, session_name);
        let own =
            [("service.name", "heliostat".to_owned()), ("process.pid", answer.pid.to_string())];
        let attributes = own.iter().chain(&origin);
        let attributes: Vec<Value> = attributes.map(|(key, value)| attribute(key, value)).collect();
        (!metrics.is_empty()).then(|| {
            json!({
                "resource": { "attributes": attributes },
                "scopeMetrics": [{
                    "scope": { "name": "heliostat", "version": env!("CARGO_PKG_VERSION") },
                    "metrics": metrics,
                }],
            })
        })
    };
    json!({ "resourceMetrics": answers.iter().filter_map(resource).collect::<Vec<_>>() })
}

fn attribute(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

/// A measurement; none where no series has a number, which JSON could not say.
fn shown(metric: &Metric, at: &str) -> Option<Value> {
    let point = |series: &Series| {
        let attributes: Vec<Value> =
            series.tags.iter().map(|tag| attribute(&tag.key, &tag.value)).collect();
        let mut point = json!({ "attributes": attributes, "timeUnixNano": at });
        if metric.kind == MetricKind::Histogram {
            let count: u64 = series.counts.iter().sum();
            point["count"] = json!(count.to_string());
            point["sum"] = json!(series.value);
            let counts = series.counts.iter().map(u64::to_string);
            point["bucketCounts"] = counts.collect();
            point["explicitBounds"] = json!(metric.boundaries);
        } else {
            point["asDouble"] = json!(series.value);
        }
        point
    };
    let finite = metric.series.iter().filter(|series| series.value.is_finite());
    let points: Vec<Value> = finite.map(point).collect();
    if points.is_empty() {
        return None;
    }
    let (kind, mut data) = match metric.kind {
        MetricKind::Gauge => ("gauge", json!({})),
        MetricKind::Counter => {
            ("sum", json!({ "isMonotonic": true, "aggregationTemporality": CUMULATIVE }))
        }
        MetricKind::Histogram => ("histogram", json!({ "aggregationTemporality": CUMULATIVE })),
    };
    data["dataPoints"] = Value::Array(points);
    let name = text::shown(&metric.name);
    Some(json!({ "name": name, "description": metric.description, kind: data }))
}

#[cfg(test)]
mod tests {
    use helio_types::WorkerId;

    use super::*;

    #[test]
    fn each_kind_has_its_form() {
        let of = |kind, value, counts: &[u64]| Metric {
            name: "n".to_owned(),
            kind,
            boundaries: vec![1.0, 2.5],
            series: vec![Series { counts: counts.to_vec(), ..Series::of(value, [("k", "v")]) }],
            ..Metric::default()
        };
        let answer = Answer {
            host: "h".to_owned(),
            pid: 7,
            worker_id: WorkerId([1; 28]),
            metrics: vec![
                of(MetricKind::Gauge, 0.5, &[]),
                of(MetricKind::Counter, 2.0, &[]),
                of(MetricKind::Histogram, 9.5, &[1, 0, 2]),
                of(MetricKind::Gauge, f64::NAN, &[]),
            ],
            ..Answer::default()
        };
        let silent = Answer { is_daemon: true, ..Answer::default() };
        let told = request(&[answer, silent], "s", 3);
        let all = told["resourceMetrics"].as_array().unwrap();
        assert_eq!(all.len(), 1, "who has no measurements is not told of");
        let attributes = all[0]["resource"]["attributes"].as_array().unwrap();
        assert!(attributes.contains(&attribute("service.name", "heliostat")));
        assert!(attributes.contains(&attribute("WorkerId", &"01".repeat(28))));
        let metrics = all[0]["scopeMetrics"][0]["metrics"].as_array().unwrap();
        assert_eq!(metrics.len(), 3, "what is not a number is left out");
        let point = json!({
            "attributes": [attribute("k", "v")], "timeUnixNano": "3000000", "asDouble": 0.5,
        });
        assert_eq!(metrics[0]["name"], "ray_n");
        assert_eq!(metrics[0]["gauge"]["dataPoints"], json!([point]));
        assert_eq!(metrics[1]["sum"]["isMonotonic"], true);
        assert_eq!(metrics[1]["sum"]["aggregationTemporality"], CUMULATIVE);
        let point = &metrics[2]["histogram"]["dataPoints"][0];
        assert_eq!((&point["count"], &point["sum"]), (&json!("3"), &json!(9.5)));
        assert_eq!(point["bucketCounts"], json!(["1", "0", "2"]));
        assert_eq!(point["explicitBounds"], json!([1.0, 2.5]));
    }
}
