//! The reference page of all settings, `docs/settings.md`, as text.

use std::fmt::Write as _;

use crate::setting::{Names, Row, Shape};
use crate::table::{INTERNAL, SECTIONS};

const HEAD: &str = r#"# Settings

Generated from `crates/helio-config/src/table.rs` by `cargo xtask settings`; `cargo xtask tidy` fails when it is stale.

A setting is an environment variable. `HELIOSTAT_<name>` and, where the last column says so, `RAY_<name>` set it; if
both are set, the first one counts, unless it is empty. `init(_system_config={"<name>": …})` takes those that are Ray's configuration. An
empty number, flag or word counts as not set. A flag is `1`, `true`, `yes`, `on` or `0`, `false`, `no`, `off`. A value
outside its range is an error where the setting is read, which names the variable and the range (for `BACKEND_LOG_LEVEL`
a warning, and the default stands); a `HELIOSTAT_*` variable that no setting answers to is named once in a warning, with
the nearest name.

A daemon reads its settings when it starts, a driver in `init()`; a later change of the environment has no effect. On a
cluster that `init()` starts, the environment of the driver counts.

Variables that belong to one search alone, such as `TUNE_MAX_PENDING_TRIALS_PG`, are read where it begins: [the guide on
tuning](guide/tuning.md#environment-variables) has them.
"#;

/// The page.
#[must_use]
pub fn page() -> String {
    let mut page = HEAD.to_owned();
    for (title, rows) in SECTIONS {
        // Writing to a `String` does not fail.
        let _ = write!(
            page,
            "\n## {title}\n\n| name | default | range | meaning | read by | variables |\n|---|---|---|---|---|---|\n"
        );
        for row in *rows {
            let _ = writeln!(page, "{}", line(row));
        }
    }
    page.push_str(
        "\n## Variables between Heliostat's own processes\n\nThey are set by one process for another, not by users.\n\n\
         | variable | meaning |\n|---|---|\n",
    );
    for (name, about) in INTERNAL {
        let _ = writeln!(page, "| `{name}` | {about} |");
    }
    page
}

fn line(row: &Row) -> String {
    let default = match (row.default().to_string(), row.shape) {
        (text, _) if text.is_empty() => "none".to_owned(),
        (text, Shape::Whole { .. } | Shape::Number { .. }) if !row.unit.is_empty() => {
            format!("{text} {}", row.unit)
        }
        (text, _) => text,
    };
    let variables = match row.names {
        Names::Both => "`HELIOSTAT_`, `RAY_`".to_owned(),
        Names::Knob => "`HELIOSTAT_`, `RAY_`, `_system_config`".to_owned(),
        Names::Own => "`HELIOSTAT_`".to_owned(),
        Names::Ray => "`RAY_`".to_owned(),
        Names::Exact => format!("`{}`", row.name),
    };
    let about: Vec<&str> = row.about.split_whitespace().collect();
    let range = match row.shape {
        Shape::Text { .. } if row.unit.is_empty() => "text".to_owned(),
        Shape::Text { .. } => row.unit.to_owned(),
        _ => row.range().replace(&format!(" ({})", row.unit), ""),
    };
    format!(
        "| `{}` | {default} | {range} | {} | {} | {variables} |",
        row.name,
        about.join(" ").replace('|', "\\|"),
        row.read_by
    )
}
