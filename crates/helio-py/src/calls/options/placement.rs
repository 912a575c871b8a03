//! The placement of a call, as `heliostat.core.calls.scheduling` makes it of the options that say
//! so.

use helio_proto::control::{Label, Selectors, Strategy, StrategyKind};
use helio_types::NodeId;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::table::ANY_BUNDLE;
use crate::current;
use crate::ids::PlacementGroupID;

/// The placement of a call.
#[pyclass(frozen, module = "heliostat._heliostat")]
pub(crate) struct Placement {
    strategy: Strategy,
    /// Whether the caller's placement group decides, where nothing else does and it captures.
    captured: bool,
}

#[pymethods]
impl Placement {
    #[new]
    #[pyo3(signature = (*, spread = false, node_id = None, soft = false, group = None, bundle = ANY_BUNDLE,
        capture_children = false, captured = true, labels = Vec::new(), fallbacks = Vec::new()))]
    #[expect(clippy::too_many_arguments, reason = "keywords of the Python class")]
    fn new(
        spread: bool,
        node_id: Option<&str>,
        soft: bool,
        group: Option<&Bound<'_, PlacementGroupID>>,
        bundle: i64,
        capture_children: bool,
        captured: bool,
        labels: Vec<(String, String)>,
        fallbacks: Vec<Vec<(String, String)>>,
    ) -> PyResult<Self> {
        let mut strategy = Strategy {
            labels: pairs(labels),
            fallbacks: fallbacks.into_iter().map(|one| Selectors { labels: pairs(one) }).collect(),
            ..Strategy::default()
        };
        if let Some(group) = group {
            strategy.kind = StrategyKind::PlacementGroup;
            strategy.placement_group = PlacementGroupID::id(group);
            strategy.bundle = bundle;
            strategy.capture_children = capture_children;
        } else if let Some(node) = node_id {
            strategy.kind = StrategyKind::NodeAffinity;
            strategy.soft = soft;
            strategy.node_id =
                NodeId::from_hex(node).map_err(|error| PyValueError::new_err(error.to_string()))?;
        } else if spread {
            strategy.kind = StrategyKind::Spread;
        }
        Ok(Self { strategy, captured })
    }

    /// Whether the caller's placement group decides, if it captures.
    #[getter]
    fn may_be_captured(&self) -> bool {
        self.captured && self.strategy.kind == StrategyKind::Default
    }
}

impl Placement {
    /// For a call that is submitted by what runs here.
    pub(crate) fn strategy(&self) -> Strategy {
        let strategy = self.strategy.clone();
        if self.captured { current::placed(strategy) } else { strategy }
    }
}

fn pairs(labels: Vec<(String, String)>) -> Vec<Label> {
    labels.into_iter().map(|(key, value)| Label { key, value }).collect()
}
