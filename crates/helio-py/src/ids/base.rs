//! `BaseID`: what all id classes can do.

use std::hash::{DefaultHasher, Hash, Hasher};

use pyo3::exceptions::{PyOSError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pyclass::CompareOp;
use pyo3::types::{PyBytes, PyString, PyTuple, PyType};

/// The longest id.
const LONGEST: usize = 28;

/// Fills `bytes` with randomness.
pub(crate) fn random(bytes: &mut [u8]) -> PyResult<()> {
    getrandom::fill(bytes).map_err(|error| PyOSError::new_err(format!("no randomness: {error}")))
}

/// A fixed-size byte string. Equality and hash go by class and bytes.
#[pyclass(subclass, frozen, module = "heliostat._heliostat")]
pub(crate) struct BaseID {
    bytes: [u8; LONGEST],
    size: u8,
}

impl BaseID {
    /// An id of `size` bytes from what a user passed.
    pub(crate) fn parse(id: &Bound<'_, PyAny>, class: &str, size: usize) -> PyResult<Self> {
        let Ok(given) = id.cast::<PyBytes>() else {
            return Err(PyTypeError::new_err(format!("Unsupported type: {}", id.get_type())));
        };
        let given = given.as_bytes();
        if given.len() != size {
            let message =
                format!("ID string needs to have length {size}, got {} ({class})", given.len());
            return Err(PyValueError::new_err(message));
        }
        Ok(Self::of(given))
    }

    /// An id of these bytes, at most 28.
    pub(crate) fn of(given: &[u8]) -> Self {
        let mut bytes = [0; LONGEST];
        bytes[..given.len()].copy_from_slice(given);
        Self { bytes, size: given.len() as u8 }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.size)]
    }

    fn class_size(cls: &Bound<'_, PyType>) -> PyResult<usize> {
        cls.getattr(pyo3::intern!(cls.py(), "SIZE"))?.extract()
    }

    fn text(&self) -> String {
        self.bytes().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

#[pymethods]
impl BaseID {
    /// The id of these bytes, ``SIZE`` of them.
    ///
    /// Args:
    ///     id_bytes: The bytes.
    ///
    /// Raises:
    ///     ValueError: There are more or fewer bytes.
    #[classmethod]
    fn from_binary<'py>(
        cls: &Bound<'py, PyType>,
        id_bytes: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        cls.call1((id_bytes,))
    }

    /// The id that these hexadecimal digits write.
    ///
    /// Args:
    ///     hex_id: ``2 * SIZE`` digits.
    ///
    /// Raises:
    ///     ValueError: There are more or fewer digits, or something else.
    #[classmethod]
    fn from_hex<'py>(
        cls: &Bound<'py, PyType>,
        hex_id: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = cls.py();
        let text = match hex_id.cast::<PyBytes>() {
            Ok(bytes) => PyString::from_bytes(py, bytes.as_bytes())?.into_any(),
            Err(_) => hex_id.clone(),
        };
        cls.call1((py.get_type::<PyBytes>().call_method1("fromhex", (text,))?,))
    }

    /// The id of nothing: every byte is 255.
    #[classmethod]
    fn nil<'py>(cls: &Bound<'py, PyType>) -> PyResult<Bound<'py, PyAny>> {
        let bytes = [0xff; LONGEST];
        cls.call1((PyBytes::new(cls.py(), &bytes[..Self::class_size(cls)?]),))
    }

    /// An id of random bytes.
    #[classmethod]
    fn from_random<'py>(cls: &Bound<'py, PyType>) -> PyResult<Bound<'py, PyAny>> {
        let mut bytes = [0; LONGEST];
        random(&mut bytes)?;
        cls.call1((PyBytes::new(cls.py(), &bytes[..Self::class_size(cls)?]),))
    }

    /// The id's length in bytes.
    #[classmethod]
    fn size(cls: &Bound<'_, PyType>) -> PyResult<usize> {
        Self::class_size(cls)
    }

    /// The id's bytes as hexadecimal digits.
    fn hex(&self) -> String {
        self.text()
    }

    /// The id's bytes.
    fn binary<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.bytes())
    }

    /// Whether it is the id of nothing.
    fn is_nil(&self) -> bool {
        self.bytes().iter().all(|byte| *byte == 0xff)
    }

    /// A hash of its bytes.
    fn redis_shard_hash(&self) -> u64 {
        self.__hash__()
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.bytes().hash(&mut hasher);
        hasher.finish()
    }

    fn __richcmp__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>, op: CompareOp) -> Py<PyAny> {
        let py = slf.py();
        if !slf.get_type().is(other.get_type()) {
            return py.NotImplemented();
        }
        let Ok(other) = other.cast::<Self>() else { return py.NotImplemented() };
        let same = op.matches(slf.get().bytes().cmp(other.get().bytes()));
        pyo3::types::PyBool::new(py, same).to_owned().into_any().unbind()
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        self.binary(py)
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        Ok(format!("{}({})", slf.get_type().name()?, slf.get().text()))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let py = slf.py();
        PyTuple::new(
            py,
            [slf.get_type().into_any(), PyTuple::new(py, [slf.get().binary(py)])?.into_any()],
        )
    }
}

/// The part of an id class that says its size and makes it of bytes. More methods go into a second
/// `#[pymethods]`-free impl, so each class lists all of its Python methods here.
macro_rules! id_class {
    ($(#[$doc:meta])* $name:ident, $id:ty { $($methods:tt)* }) => {
        $(#[$doc])*
        #[pyo3::pyclass(extends = $crate::ids::BaseID, frozen, module = "heliostat._heliostat")]
        pub(crate) struct $name;

        impl $name {
            /// The Python object of an id.
            #[allow(dead_code, reason = "not every id is made here")]
            pub(crate) fn of(py: pyo3::Python<'_>, id: $id) -> pyo3::PyResult<pyo3::Bound<'_, Self>> {
                let base = pyo3::PyClassInitializer::from($crate::ids::BaseID::of(&id.0));
                pyo3::Bound::new(py, base.add_subclass(Self))
            }

            /// The id in a Python object of this class.
            #[allow(dead_code, reason = "not every id is read here")]
            pub(crate) fn id(object: &pyo3::Bound<'_, Self>) -> $id {
                <$id>::try_from(object.as_super().get().bytes()).unwrap_or_default()
            }
        }

        #[pyo3::pymethods]
        impl $name {
            #[classattr]
            const SIZE: usize = <$id>::LEN;

            #[new]
            fn new(id: &pyo3::Bound<'_, pyo3::PyAny>) -> pyo3::PyResult<pyo3::PyClassInitializer<Self>> {
                let base = $crate::ids::BaseID::parse(id, stringify!($name), <$id>::LEN)?;
                Ok(pyo3::PyClassInitializer::from(base).add_subclass(Self))
            }

            $($methods)*
        }
    };
}
pub(crate) use id_class;
