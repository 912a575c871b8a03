//! Curves as pictures: SVG, with a logarithmic scale for the number of nodes and for the values.

use std::fmt::Write as _;

/// A line of a chart.
pub struct Line {
    /// The name of the line in the legend.
    pub name: String,
    /// Number of nodes, and value. Values of zero or less are left out.
    pub points: Vec<(f64, f64)>,
}

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;
const COLORS: [&str; 4] = ["#0b6fb8", "#c8501e", "#2c8a4b", "#7a4fa3"];

/// A range of powers of ten that holds all values.
fn decades(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for value in values.filter(|value| *value > 0.0) {
        low = low.min(value.log10().floor());
        high = high.max(value.log10().ceil());
    }
    match low.is_finite() {
        false => (0.0, 1.0),
        true => (low, high.max(low + 1.0)),
    }
}

fn label(exponent: f64) -> String {
    match exponent as i32 {
        0..=5 => {
            let digits = format!("{:.0}", 10f64.powf(exponent));
            match digits.len() {
                4.. => format!("{},{}", &digits[..digits.len() - 3], &digits[digits.len() - 3..]),
                _ => digits,
            }
        }
        -3..=-1 => format!("{}", 10f64.powf(exponent)),
        other => format!("1e{other}"),
    }
}

/// Draws the lines.
#[must_use]
pub fn draw(title: &str, unit: &str, lines: &[Line]) -> String {
    let points = || lines.iter().flat_map(|line| line.points.iter().copied());
    let (x_low, x_high) = decades(points().map(|point| point.0));
    let (y_low, y_high) = decades(points().map(|point| point.1));
    let x = |value: f64| LEFT + (value.log10() - x_low) / (x_high - x_low) * (WIDTH - LEFT - RIGHT);
    let y = |value: f64| {
        HEIGHT - BOTTOM - (value.log10() - y_low) / (y_high - y_low) * (HEIGHT - TOP - BOTTOM)
    };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"22\" font-size=\"15\">{title}</text>\n"
    );
    let mut exponent = y_low;
    while exponent <= y_high {
        let at = y(10f64.powf(exponent));
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{:.1}\" y2=\"{at:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            at + 4.0,
            label(exponent)
        );
        exponent += 1.0;
    }
    let mut exponent = x_low;
    while exponent <= x_high {
        let at = x(10f64.powf(exponent));
        let _ = writeln!(
            svg,
            "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            HEIGHT - BOTTOM + 18.0,
            label(exponent)
        );
        exponent += 1.0;
    }
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">nodes</text>\
         <text x=\"16\" y=\"{:.1}\" text-anchor=\"middle\" transform=\"rotate(-90 16 {:.1})\">{unit}</text>",
        (WIDTH + LEFT) / 2.0,
        HEIGHT - 12.0,
        HEIGHT / 2.0,
        HEIGHT / 2.0
    );
    for (line, color) in lines.iter().zip(COLORS.iter().cycle()) {
        let shown: Vec<(f64, f64)> =
            line.points.iter().filter(|point| point.1 > 0.0).map(|(a, b)| (x(*a), y(*b))).collect();
        let path: Vec<String> = shown.iter().map(|(a, b)| format!("{a:.1},{b:.1}")).collect();
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"/>",
            path.join(" ")
        );
        for (a, b) in shown {
            let _ = writeln!(svg, "<circle cx=\"{a:.1}\" cy=\"{b:.1}\" r=\"3\" fill=\"{color}\"/>");
        }
    }
    for (number, (line, color)) in lines.iter().zip(COLORS.iter().cycle()).enumerate() {
        let at = TOP + 14.0 * number as f64 + 4.0;
        let _ = writeln!(
            svg,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"10\" height=\"3\" fill=\"{color}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            LEFT + 10.0,
            at,
            LEFT + 26.0,
            at + 5.0,
            line.name
        );
    }
    svg.push_str("</svg>\n");
    svg
}
