//! Measurements as text, version 0.0.4 of the format of Prometheus.
//!
//! Names begin with `ray_`, as users of Ray know them; a counter appears under its name and with
//! `_total`. Series say which node, session and process they are of, so that those of several processes
//! stay apart.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use helio_proto::inspect::{Answer, Metric, MetricKind, Series};

/// The labels of a process, in each of its series.
type Origin = [(&'static str, String)];

/// A metric with the values of all processes.
struct Family<'a> {
    description: &'a str,
    kind: MetricKind,
    series: Vec<(&'a Metric, &'a Series, &'a Origin)>,
}

pub(super) fn render(answers: &[Answer], session_name: &str) -> String {
    let owned: Vec<Vec<(&'static str, String)>> =
        answers.iter().map(|answer| origin(answer, session_name)).collect();
    let mut families: BTreeMap<&str, Family<'_>> = BTreeMap::new();
    for (answer, origin) in answers.iter().zip(&owned) {
        for metric in &answer.metrics {
            let family = families.entry(&metric.name).or_insert_with(|| Family {
                description: &metric.description,
                kind: metric.kind,
                series: Vec::new(),
            });
            // Two processes may mean different things by one name; the first one's kind stands.
            if family.kind == metric.kind {
                family.series.extend(metric.series.iter().map(|one| (metric, one, &origin[..])));
            }
        }
    }
    let mut text = String::new();
    for (name, family) in families {
        let name = shown(name);
        match family.kind {
            MetricKind::Counter => {
                let base = name.strip_suffix("_total").unwrap_or(&name);
                // Under its bare name for whoever asks for that, where no tool expects a counter.
                for (name, kind) in
                    [(base.to_owned(), "gauge"), (format!("{base}_total"), "counter")]
                {
                    head(&mut text, &name, family.description, kind);
                    plain(&mut text, &name, &family);
                }
            }
            MetricKind::Gauge => {
                head(&mut text, &name, family.description, "gauge");
                plain(&mut text, &name, &family);
            }
            MetricKind::Histogram => {
                head(&mut text, &name, family.description, "histogram");
                for (metric, series, origin) in &family.series {
                    histogram(&mut text, &name, metric, series, origin);
                }
            }
        }
    }
    text
}

/// The name under which a metric is shown; dashboards ask for those of the autoscaler without the prefix.
pub(super) fn shown(name: &str) -> String {
    if name.starts_with("autoscaler_") { name.to_owned() } else { format!("ray_{name}") }
}

pub(super) fn origin(answer: &Answer, session_name: &str) -> Vec<(&'static str, String)> {
    let mut origin =
        vec![("NodeAddress", answer.host.clone()), ("SessionName", session_name.to_owned())];
    if !answer.is_daemon {
        origin.push(("WorkerId", answer.worker_id.hex()));
        origin.push(("JobId", answer.job_id.hex()));
    }
    origin
}

fn head(text: &mut String, name: &str, description: &str, kind: &str) {
    let description = match description {
        "" => "(without a description)".to_owned(),
        text => text.replace('\\', "\\\\").replace('\n', "\\n"),
    };
    let _ = writeln!(text, "# HELP {name} {description}\n# TYPE {name} {kind}");
}

fn plain(text: &mut String, name: &str, family: &Family<'_>) {
    for (_, series, origin) in &family.series {
        let _ = writeln!(text, "{name}{} {}", labels(series, origin, None), number(series.value));
    }
}

fn histogram(text: &mut String, name: &str, metric: &Metric, series: &Series, origin: &Origin) {
    let mut count = 0;
    let bounds = metric.boundaries.iter().map(|bound| number(*bound));
    for (bound, n) in bounds.chain(["+Inf".to_owned()]).zip(&series.counts) {
        count += n;
        let _ = writeln!(text, "{name}_bucket{} {count}", labels(series, origin, Some(&bound)));
    }
    let labels = labels(series, origin, None);
    let _ =
        writeln!(text, "{name}_sum{labels} {}\n{name}_count{labels} {count}", number(series.value));
}

fn labels(series: &Series, origin: &Origin, bound: Option<&str>) -> String {
    let mut all: Vec<String> = Vec::new();
    for tag in &series.tags {
        // A tag of the application with the name of one of ours stands for itself.
        all.push(label(&tag.key, &tag.value));
    }
    for (name, value) in
        origin.iter().filter(|(name, _)| series.tags.iter().all(|tag| tag.key != *name))
    {
        all.push(label(name, value));
    }
    all.extend(bound.map(|bound| label("le", bound)));
    if all.is_empty() { String::new() } else { format!("{{{}}}", all.join(",")) }
}

fn label(name: &str, value: &str) -> String {
    let mut name: String = name
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() || letter == '_' { letter } else { '_' })
        .collect();
    if name.is_empty() || name.starts_with(|letter: char| letter.is_ascii_digit()) {
        name.insert(0, '_');
    }
    let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("{name}=\"{value}\"")
}

fn number(value: f64) -> String {
    match value {
        value if value.is_nan() => "NaN".to_owned(),
        f64::INFINITY => "+Inf".to_owned(),
        f64::NEG_INFINITY => "-Inf".to_owned(),
        value => format!("{value:?}"),
    }
}

#[cfg(test)]
mod tests {
    use helio_proto::inspect::Tag;
    use helio_types::{JobId, WorkerId};

    use super::*;

    fn metric(name: &str, kind: MetricKind, series: Series) -> Metric {
        let boundaries = if kind == MetricKind::Histogram { vec![1.0, 2.5] } else { Vec::new() };
        Metric {
            name: name.to_owned(),
            description: "a\nb".to_owned(),
            kind,
            boundaries,
            series: vec![series],
        }
    }

    #[test]
    fn each_kind_has_its_lines_and_values_are_escaped() {
        let tags = vec![Tag { key: "my-key".to_owned(), value: "a\"b\\".to_owned() }];
        let answer = Answer {
            host: "h".to_owned(),
            worker_id: WorkerId([1; 28]),
            job_id: JobId([0, 0, 0, 1]),
            metrics: vec![
                metric("n", MetricKind::Counter, Series { tags, value: 2.0, counts: vec![] }),
                metric(
                    "h",
                    MetricKind::Histogram,
                    Series { tags: vec![], value: 9.5, counts: vec![1, 0, 2] },
                ),
            ],
            ..Answer::default()
        };
        let daemon = Answer {
            host: "h".to_owned(),
            is_daemon: true,
            metrics: vec![metric(
                "g",
                MetricKind::Gauge,
                Series { value: 0.5, ..Series::default() },
            )],
            ..Answer::default()
        };
        let worker = "01".repeat(28);
        let own =
            format!("NodeAddress=\"h\",SessionName=\"s\",WorkerId=\"{worker}\",JobId=\"00000001\"");
        let expect = format!(
            "# HELP ray_g a\\nb
# TYPE ray_g gauge
ray_g{{NodeAddress=\"h\",SessionName=\"s\"}} 0.5
# HELP ray_h a\\nb
# TYPE ray_h histogram
ray_h_bucket{{{own},le=\"1.0\"}} 1
ray_h_bucket{{{own},le=\"2.5\"}} 1
ray_h_bucket{{{own},le=\"+Inf\"}} 3
ray_h_sum{{{own}}} 9.5
ray_h_count{{{own}}} 3
# HELP ray_n a\\nb
# TYPE ray_n gauge
ray_n{{my_key=\"a\\\"b\\\\\",{own}}} 2.0
# HELP ray_n_total a\\nb
# TYPE ray_n_total counter
ray_n_total{{my_key=\"a\\\"b\\\\\",{own}}} 2.0
"
        );
        assert_eq!(render(&[daemon, answer], "s"), expect);
    }
}
