//! Measurements of the application in this process: counters, gauges, histograms.
//!
//! Measurements belong to the process and not to a session: a program makes them before it joins a cluster and
//! keeps them over the next one. Recording takes one lock for as long as an addition takes; they are
//! read when somebody scrapes the node, on a thread that never takes the GIL (GIL-1).
//!
//! **LIMIT-1** A metric has [`SERIES_MAX`] series at most; what would make more is counted in
//! `metric_series_dropped`.

use std::collections::{BTreeMap, HashMap};

use helio_proto::inspect::{Metric, MetricKind, Series, Tag};
use parking_lot::Mutex;

/// Number of combinations of tags that a metric has.
pub const SERIES_MAX: usize = 10_000;

#[derive(Debug)]
struct Recorded {
    description: String,
    kind: MetricKind,
    boundaries: Vec<f64>,
    series: HashMap<Vec<(String, String)>, Values>,
    dropped: u64,
}

#[derive(Debug, Default)]
struct Values {
    value: f64,
    counts: Vec<u64>,
}

static ALL: Mutex<BTreeMap<String, Recorded>> = Mutex::new(BTreeMap::new());

/// Makes a metric, unless it is there.
pub fn declare(name: &str, description: &str, kind: MetricKind, boundaries: &[f64]) {
    ALL.lock().entry(name.to_owned()).or_insert_with(|| Recorded {
        description: description.to_owned(),
        kind,
        boundaries: boundaries.to_vec(),
        series: HashMap::new(),
        dropped: 0,
    });
}

/// Adds to a counter, sets a gauge, or counts a value of a histogram; `tags` are sorted.
pub fn record(name: &str, tags: Vec<(String, String)>, value: f64) {
    let mut all = ALL.lock();
    let Some(metric) = all.get_mut(name) else { return };
    // **LIMIT-1** A tag with a value for each request makes a series each. What is dropped is counted.
    if metric.series.len() >= SERIES_MAX && !metric.series.contains_key(&tags) {
        metric.dropped += 1;
        return;
    }
    let values = metric.series.entry(tags).or_default();
    match metric.kind {
        MetricKind::Counter => values.value += value,
        MetricKind::Gauge => values.value = value,
        MetricKind::Histogram => {
            values.value += value;
            values.counts.resize(metric.boundaries.len() + 1, 0);
            let bucket = metric.boundaries.partition_point(|bound| *bound < value);
            values.counts[bucket] += 1;
        }
    }
}

/// Lets go of all series of all metrics that have this tag: what they measured is over.
pub fn forget(key: &str, value: &str) {
    for metric in ALL.lock().values_mut() {
        metric.series.retain(|tags, _| !tags.iter().any(|(k, v)| k == key && v == value));
    }
}

/// All of them, by name.
#[must_use]
pub fn snapshot() -> Vec<Metric> {
    let all = ALL.lock();
    let mut dropped = 0;
    let mut metrics: Vec<Metric> = Vec::with_capacity(all.len());
    for (name, metric) in all.iter() {
        dropped += metric.dropped;
        let mut series: Vec<Series> = metric
            .series
            .iter()
            .map(|(tags, values)| Series {
                tags: tags
                    .iter()
                    .map(|(key, value)| Tag { key: key.clone(), value: value.clone() })
                    .collect(),
                value: values.value,
                counts: values.counts.clone(),
            })
            .collect();
        let key =
            |one: &Series| one.tags.iter().map(|tag| tag.value.clone()).collect::<Vec<String>>();
        series.sort_by_cached_key(key);
        metrics.push(Metric {
            name: name.clone(),
            description: metric.description.clone(),
            kind: metric.kind,
            boundaries: metric.boundaries.clone(),
            series,
        });
    }
    if dropped > 0 {
        metrics.push(Metric {
            name: "metric_series_dropped".to_owned(),
            description: format!("Values not counted: their metric has {SERIES_MAX} series"),
            kind: MetricKind::Counter,
            boundaries: Vec::new(),
            series: vec![Series { value: dropped as f64, ..Series::default() }],
        });
    }
    metrics
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(name: &str) -> Metric {
        snapshot().into_iter().find(|metric| metric.name == name).unwrap()
    }

    #[test]
    fn counters_add_gauges_replace_and_histograms_count() {
        declare("t_counter", "", MetricKind::Counter, &[]);
        declare("t_gauge", "", MetricKind::Gauge, &[]);
        declare("t_histogram", "", MetricKind::Histogram, &[1.0, 2.0]);
        let tags = || vec![("k".to_owned(), "v".to_owned())];
        for value in [1.0, 2.0, 5.0] {
            for name in ["t_counter", "t_gauge", "t_histogram", "t_unknown"] {
                record(name, tags(), value);
            }
        }
        assert_eq!(find("t_counter").series[0].value, 8.0);
        assert_eq!(find("t_gauge").series[0].value, 5.0);
        let histogram = &find("t_histogram").series[0];
        assert_eq!((histogram.value, &histogram.counts[..]), (8.0, &[1, 1, 1][..]));
    }

    #[test]
    fn what_is_over_is_forgotten() {
        declare("t_forgotten", "", MetricKind::Gauge, &[]);
        for run in ["a", "b"] {
            record("t_forgotten", vec![("run".to_owned(), run.to_owned())], 1.0);
        }
        forget("run", "a");
        let left = find("t_forgotten").series;
        assert_eq!(left, [Series::of(1.0, [("run", "b")])]);
    }

    #[test]
    fn a_metric_has_so_many_series_and_says_what_it_did_not_count() {
        declare("t_many", "", MetricKind::Counter, &[]);
        for n in 0..=SERIES_MAX {
            record("t_many", vec![("k".to_owned(), n.to_string())], 1.0);
        }
        assert_eq!(find("t_many").series.len(), SERIES_MAX, "LIMIT-1");
        assert_eq!(find("metric_series_dropped").series[0].value, 1.0);
    }
}
