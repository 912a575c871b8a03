//! The median of several measurements, and their spread.

/// The median of measurements, and between which values half of them lie.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// The median.
    pub middle: f64,
    /// A quarter of the measurements lies below.
    pub low: f64,
    /// A quarter of the measurements lies above.
    pub high: f64,
}

impl Spread {
    /// Returns the spread of these measurements; of none, all is 0.
    #[must_use]
    pub fn of(measurements: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = measurements.into_iter().collect();
        values.sort_unstable_by(f64::total_cmp);
        let at = |part: usize| {
            // The value itself and no mean of two: each was measured.
            let place = (values.len() * part / 4).min(values.len().saturating_sub(1));
            values.get(place).copied().unwrap_or_default()
        };
        Self { low: at(1), middle: at(2), high: at(3) }
    }
}

#[cfg(test)]
mod tests {
    use super::Spread;

    #[test]
    fn half_of_the_measurements_lie_within() {
        let five = Spread::of([5.0, 1.0, 4.0, 2.0, 3.0]);
        assert_eq!(five, Spread { low: 2.0, middle: 3.0, high: 4.0 });
        assert_eq!(Spread::of([7.0]), Spread { low: 7.0, middle: 7.0, high: 7.0 });
        assert_eq!(Spread::of([]), Spread::default());
    }
}
