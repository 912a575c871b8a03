//! Reads the plans that the Python side makes (`heliostat.core.plans`).

use helio_proto::control::{Label, Selectors, Strategy, StrategyKind};
use helio_proto::environment::RuntimeEnv;
use helio_proto::template::FrontOptions;
use helio_types::{NodeId, Quantity, ResourceSet};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyTuple};

use super::definition::Definition;
use crate::codec::{self, Purpose};
use crate::ids::PlacementGroupID;
use crate::{current, environment};

/// A dictionary with typed, optional entries.
pub(super) struct Plan<'a, 'py>(pub(super) &'a Bound<'py, PyDict>);

impl<'py> Plan<'_, 'py> {
    /// An entry; `None` when it is absent or is `None`.
    pub(super) fn find(&self, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.0.get_item(name)?.filter(|value| !value.is_none()))
    }

    /// An entry, or its default.
    pub(super) fn or<T>(&self, name: &str, default: T) -> PyResult<T>
    where
        T: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
    {
        self.find(name)?.map_or(Ok(default), |value| value.extract())
    }

    /// The function or class that is called.
    pub(super) fn definition(&self, name: &str) -> PyResult<Py<Definition>> {
        Ok(self.need(name)?.cast_into::<Definition>()?.unbind())
    }

    /// An entry that has to be there.
    pub(super) fn need(&self, name: &str) -> PyResult<Bound<'py, PyAny>> {
        self.find(name)?.ok_or_else(|| PyValueError::new_err(format!("the plan has no {name:?}")))
    }

    pub(super) fn bytes(&self, name: &str) -> PyResult<Vec<u8>> {
        match self.find(name)? {
            Some(value) => Ok(value.cast::<pyo3::types::PyBytes>()?.as_bytes().to_vec()),
            None => Ok(Vec::new()),
        }
    }

    pub(super) fn resources(&self, name: &str) -> PyResult<ResourceSet> {
        let mut set = ResourceSet::default();
        if let Some(given) = self.find(name)? {
            for item in given.call_method0("items")?.try_iter()? {
                let (name, quantity): (String, f64) = item?.extract()?;
                set.set(&name, Quantity::from_f64(quantity));
            }
        }
        Ok(set)
    }

    pub(super) fn runtime_env(&self) -> PyResult<RuntimeEnv> {
        environment::read(&self.or("runtime_env", String::new())?)
    }

    pub(super) fn strategy(&self) -> PyResult<Strategy> {
        let Some(given) = self.find("strategy")? else {
            return Ok(current::placed(Strategy::default()));
        };
        let given = Plan(given.cast::<PyDict>()?);
        let number = given.or("kind", 0)?;
        let kind = StrategyKind::from_number(number).ok_or_else(|| {
            PyValueError::new_err(format!("there is no strategy of the number {number}"))
        })?;
        let node: String = given.or("node_id", String::new())?;
        let mut strategy = Strategy {
            kind,
            soft: given.or("soft", false)?,
            bundle: given.or("bundle", -1)?,
            capture_children: given.or("capture_children", false)?,
            ..Strategy::default()
        };
        if !node.is_empty() {
            strategy.node_id = NodeId::from_hex(&node)
                .map_err(|error| PyValueError::new_err(error.to_string()))?;
        }
        if let Some(group) = given.find("placement_group_id")? {
            strategy.placement_group = PlacementGroupID::id(group.cast()?);
        }
        if let Some(labels) = given.find("labels")? {
            for item in labels.try_iter()? {
                let (key, value): (String, String) = item?.extract()?;
                strategy.labels.push(Label { key, value });
            }
        }
        if let Some(fallbacks) = given.find("fallbacks")? {
            for selectors in fallbacks.try_iter()? {
                let mut labels = Vec::new();
                for item in selectors?.try_iter()? {
                    let (key, value): (String, String) = item?.extract()?;
                    labels.push(Label { key, value });
                }
                strategy.fallbacks.push(Selectors { labels });
            }
        }
        Ok(if given.or("captured", true)? { current::placed(strategy) } else { strategy })
    }

    /// `retry_exceptions` into the options of the front; whether exceptions are retried at all.
    pub(super) fn retry_exceptions(&self, front: &mut FrontOptions) -> PyResult<bool> {
        match self.find("retry_exceptions")? {
            Some(value) => retry_exceptions(&value, front),
            None => Ok(false),
        }
    }
}

/// `True`, `False` or a sequence of exception classes.
pub(super) fn retry_exceptions(
    value: &Bound<'_, PyAny>,
    front: &mut FrontOptions,
) -> PyResult<bool> {
    if let Ok(all) = value.cast::<PyBool>() {
        front.retries_all = all.is_true();
        return Ok(all.is_true());
    }
    let classes = value.try_iter()?.collect::<PyResult<Vec<_>>>()?;
    if classes.is_empty() {
        return Ok(false);
    }
    let classes = PyTuple::new(value.py(), classes)?;
    front.retried = codec::encode(&classes.into_any(), Purpose::Value)?.sink.take();
    Ok(true)
}
