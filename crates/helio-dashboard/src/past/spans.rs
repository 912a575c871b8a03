//! Means of readings over spans of time, and curves of them.

use crate::answers::figures::Curves;

use super::ring::Ring;

/// A span of time that is not over yet: the minute, or the five minutes.
#[derive(Debug, Default)]
pub(super) struct Span {
    number: u64,
    means: Means,
}

impl Span {
    /// Adds a row; when it is the first of another span, the means of the one before and its number.
    pub(super) fn add(&mut self, number: u64, values: &[f32]) -> Option<(u64, Vec<f32>)> {
        let mut over = None;
        if self.number != number {
            if self.number > 0 {
                let means = self.means.values().map(|v| v.map_or(f32::NAN, |v| v as f32));
                over = Some((self.number, means.collect()));
            }
            *self = Self { number, means: Means::default() };
        }
        self.means.add(values);
        over
    }
}

/// Means of columns; what is not a number in a row is left out.
#[derive(Clone, Debug, Default)]
struct Means(Vec<(f64, u32)>);

impl Means {
    fn add(&mut self, values: &[f32]) {
        self.0.resize(values.len(), (0.0, 0));
        for ((sum, count), value) in self.0.iter_mut().zip(values) {
            if value.is_finite() {
                *sum += f64::from(*value);
                *count += 1;
            }
        }
    }

    fn values(&self) -> impl Iterator<Item = Option<f64>> + '_ {
        self.0.iter().map(|(sum, count)| (*count > 0).then(|| sum / f64::from(*count)))
    }
}

/// Curves of `points` points at most, of the seconds from `from` to `to` since 1970: means of equal spans of time. A row of
/// the file is of `unit` seconds.
pub(super) fn curves(
    rows: &Ring,
    unit: u64,
    columns: &[&'static str],
    from: u64,
    to: u64,
    points: u64,
) -> Curves {
    let every = (to - from).div_ceil(points).max(1).next_multiple_of(unit);
    let first = from / every;
    let count = (to / every - first + 1) as usize;
    let mut spans = vec![Means::default(); count];
    let mut last = 0;
    let each = |moment: u64, values: &[f32]| {
        let at = (moment * unit / every).saturating_sub(first) as usize;
        if let Some(span) = spans.get_mut(at) {
            span.add(values);
            last = last.max(at + 1);
        }
    };
    rows.read(from / unit..to / unit + 1, each);
    let begun = spans.iter().position(|span| span.values().any(|value| value.is_some()));
    let spans = &spans[begun.unwrap_or(last).min(last)..last];
    let at: Vec<u64> =
        (0..spans.len()).map(|n| (first + (begun.unwrap_or(0) + n) as u64) * every).collect();
    let of = |column: usize| -> Vec<Option<f64>> {
        spans.iter().map(|span| span.values().nth(column).flatten()).collect()
    };
    let series = columns.iter().enumerate().map(|(n, name)| (*name, of(n))).collect();
    Curves { every_s: every, at, series }
}
