//! Advantages and returns of steps (`helio-returns`), on views of numpy's arrays: nothing is copied.

use std::ffi::CStr;
use std::marker::PhantomData;

use helio_returns::{Clips, Ends, Grid};
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;

/// A type of elements, with the letters that `struct` has for it.
trait Element: Copy {
    const LETTERS: &'static [u8];
    const NAME: &'static str;
}

impl Element for f32 {
    const LETTERS: &'static [u8] = b"f";
    const NAME: &'static str = "float32";
}

impl Element for f64 {
    const LETTERS: &'static [u8] = b"d";
    const NAME: &'static str = "float64";
}

impl Element for i64 {
    const LETTERS: &'static [u8] = b"lq";
    const NAME: &'static str = "int64";
}

/// Truth values, which are bytes.
impl Element for u8 {
    const LETTERS: &'static [u8] = b"?";
    const NAME: &'static str = "bool";
}

/// The memory of an array, held until this is dropped.
struct Numbers<T> {
    view: Box<ffi::Py_buffer>,
    element: PhantomData<T>,
}

impl<T: Element> Numbers<T> {
    /// The array's memory for reading; any order of its elements.
    fn of(array: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::held(array, ffi::PyBUF_STRIDES | ffi::PyBUF_FORMAT)
    }

    /// The array's memory for writing: rows of steps.
    fn written(array: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::held(array, ffi::PyBUF_C_CONTIGUOUS | ffi::PyBUF_FORMAT | ffi::PyBUF_WRITABLE)
    }

    fn held(array: &Bound<'_, PyAny>, flags: std::ffi::c_int) -> PyResult<Self> {
        let mut view = Box::new(ffi::Py_buffer::new());
        // SAFETY: the object is alive, and `view` is ours to fill.
        if unsafe { ffi::PyObject_GetBuffer(array.as_ptr(), &raw mut *view, flags) } != 0 {
            return Err(PyErr::fetch(array.py()));
        }
        let found = Self { view, element: PhantomData };
        let letters = if found.view.format.is_null() {
            c"B"
        } else {
            // SAFETY: the exporter gave a string that lives as long as the export.
            unsafe { CStr::from_ptr(found.view.format) }
        };
        let is_one = matches!(letters.to_bytes(), [letter] if T::LETTERS.contains(letter));
        if !is_one || found.view.itemsize as usize != size_of::<T>() {
            let message = format!("an array of {} is needed, not of {letters:?}", T::NAME);
            return Err(PyValueError::new_err(message));
        }
        if found.dimensions().iter().chain(found.strides()).any(|number| *number < 0)
            || found
                .strides()
                .iter()
                .any(|stride| !(*stride as usize).is_multiple_of(size_of::<T>()))
            || !found.view.buf.cast::<T>().is_aligned()
        {
            return Err(PyValueError::new_err(
                "an array is needed that is aligned and goes forwards",
            ));
        }
        Ok(found)
    }

    fn dimensions(&self) -> &[ffi::Py_ssize_t] {
        if self.view.ndim == 0 {
            return &[];
        }
        // SAFETY: a shape was asked for; it has as many entries as there are dimensions.
        unsafe { std::slice::from_raw_parts(self.view.shape, self.view.ndim as usize) }
    }

    fn strides(&self) -> &[ffi::Py_ssize_t] {
        if self.view.ndim == 0 {
            return &[];
        }
        // SAFETY: as of the shape.
        unsafe { std::slice::from_raw_parts(self.view.strides, self.view.ndim as usize) }
    }

    /// Returns the number of elements from the first to the last one, both counted; gaps count as
    /// well.
    fn span(&self) -> usize {
        let pairs = self.dimensions().iter().zip(self.strides());
        if self.dimensions().contains(&0) {
            return 0;
        }
        1 + pairs.map(|(count, stride)| (count - 1) as usize * (*stride as usize)).sum::<usize>()
            / size_of::<T>()
    }

    fn slice(&self) -> &[T] {
        if self.span() == 0 {
            return &[];
        }
        // SAFETY: the elements from the first to the last one are the exporter's, aligned, and stay put while
        // they are held; any bits are a `T`. What a thread of another library writes meanwhile tears a
        // number only, as it would tear numpy's own sum of it.
        unsafe { std::slice::from_raw_parts(self.view.buf.cast_const().cast(), self.span()) }
    }

    fn grid(&self) -> PyResult<Grid<'_, T>> {
        let (&[steps, envs], &[down, across]) = (self.dimensions(), self.strides()) else {
            return Err(PyValueError::new_err("an array of steps and environments is needed"));
        };
        let size = size_of::<T>();
        let strides = (down as usize / size, across as usize / size);
        Grid::new(self.slice(), (steps as usize, envs as usize), strides)
            .ok_or_else(|| PyValueError::new_err("an array reaches beyond its memory"))
    }

    fn line(&self) -> PyResult<&[T]> {
        let contiguous = self.strides().iter().all(|stride| *stride as usize == size_of::<T>());
        if self.dimensions().len() == 1 && (contiguous || self.span() <= 1) {
            Ok(self.slice())
        } else {
            Err(PyValueError::new_err("an array of one dimension without gaps is needed"))
        }
    }

    fn range(&self) -> std::ops::Range<usize> {
        let start = self.view.buf.addr();
        start..start + self.span() * size_of::<T>()
    }

    /// The elements, to be written. `others` are what is read or written besides.
    fn slice_mut(&mut self, others: &[std::ops::Range<usize>]) -> PyResult<&mut [T]> {
        let own = self.range();
        if others.iter().any(|other| own.start < other.end && other.start < own.end) {
            return Err(PyValueError::new_err("what is written lies in what is read"));
        }
        if own.is_empty() {
            return Ok(&mut []);
        }
        // SAFETY: as of `slice`; the export is a writable one, and nothing else of this call has the memory.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.view.buf.cast(), self.span()) })
    }
}

impl<T> Drop for Numbers<T> {
    fn drop(&mut self) {
        // SAFETY: filled by `PyObject_GetBuffer` and released once, with the GIL, where it was made.
        unsafe { ffi::PyBuffer_Release(&raw mut *self.view) };
    }
}

fn same(shapes: &[(usize, usize)], written: &[usize]) -> PyResult<()> {
    let first = shapes[0];
    if shapes.iter().all(|shape| *shape == first)
        && written.iter().all(|count| *count == first.0 * first.1)
    {
        return Ok(());
    }
    let message = format!("columns of a sample have different shapes: {shapes:?}, {written:?}");
    Err(PyValueError::new_err(message))
}

/// Writes into `out` the value of what each step led to.
#[pyfunction]
pub(crate) fn _following(
    values: &Bound<'_, PyAny>,
    last: &Bound<'_, PyAny>,
    terminated: &Bound<'_, PyAny>,
    end_places: &Bound<'_, PyAny>,
    end_values: &Bound<'_, PyAny>,
    out: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let (values, last) = (Numbers::<f32>::of(values)?, Numbers::<f32>::of(last)?);
    let terminated = Numbers::<u8>::of(terminated)?;
    let places = Numbers::<i64>::of(end_places)?;
    let ended = Numbers::<f32>::of(end_values)?;
    let mut written = Numbers::<f32>::written(out)?;
    let out = written.slice_mut(&[values.range(), last.range(), ended.range()])?;
    let ends = Ends { places: places.grid()?, values: ended.line()? };
    same(&[values.grid()?.shape(), terminated.grid()?.shape()], &[out.len()])?;
    if last.line()?.len() != values.grid()?.shape().1
        || ends.places.shape() != (ends.values.len(), 2)
    {
        return Err(PyValueError::new_err("there is not one value for each environment and end"));
    }
    helio_returns::following(values.grid()?, last.line()?, terminated.grid()?, ends, out)
        .map_err(|row| PyValueError::new_err(format!("end {row} is at no step of the sample")))
}

/// Writes generalized advantage estimates into `out`.
#[pyfunction]
pub(crate) fn _advantages(
    rewards: &Bound<'_, PyAny>,
    values: &Bound<'_, PyAny>,
    following: &Bound<'_, PyAny>,
    over: &Bound<'_, PyAny>,
    gamma: f64,
    lambda: f64,
    out: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let (rewards, values) = (Numbers::<f32>::of(rewards)?, Numbers::<f32>::of(values)?);
    let (following, over) = (Numbers::<f32>::of(following)?, Numbers::<u8>::of(over)?);
    let mut written = Numbers::<f32>::written(out)?;
    let out = written.slice_mut(&[rewards.range(), values.range(), following.range()])?;
    let (rewards, values, following) = (rewards.grid()?, values.grid()?, following.grid()?);
    let over = over.grid()?;
    let shapes = [rewards.shape(), values.shape(), following.shape(), over.shape()];
    same(&shapes, &[out.len()])?;
    helio_returns::advantages(rewards, values, following, over, gamma, lambda, out);
    Ok(())
}

/// Writes V-trace's targets and advantages.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "each is a column of the sample, or a setting")]
pub(crate) fn _vtrace(
    log_ratios: &Bound<'_, PyAny>,
    rewards: &Bound<'_, PyAny>,
    values: &Bound<'_, PyAny>,
    following: &Bound<'_, PyAny>,
    over: &Bound<'_, PyAny>,
    gamma: f64,
    clips: (f64, f64),
    targets: &Bound<'_, PyAny>,
    advantages: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let (ratios, rewards) = (Numbers::<f32>::of(log_ratios)?, Numbers::<f32>::of(rewards)?);
    let (values, following) = (Numbers::<f32>::of(values)?, Numbers::<f32>::of(following)?);
    let over = Numbers::<u8>::of(over)?;
    let mut read = vec![ratios.range(), rewards.range(), values.range(), following.range()];
    let mut targets = Numbers::<f32>::written(targets)?;
    let mut advantages = Numbers::<f32>::written(advantages)?;
    let targets_out = targets.slice_mut(&read)?;
    read.push(targets_out.as_ptr_range().start.addr()..targets_out.as_ptr_range().end.addr());
    let advantages_out = advantages.slice_mut(&read)?;
    let grids = (ratios.grid()?, rewards.grid()?, values.grid()?, following.grid()?, over.grid()?);
    let (ratios, rewards, values, following, over) = grids;
    let shapes = [ratios.shape(), rewards.shape(), values.shape(), following.shape(), over.shape()];
    same(&shapes, &[targets_out.len(), advantages_out.len()])?;
    let clips = Clips { rho: clips.0, pg_rho: clips.1 };
    helio_returns::vtrace(
        ratios,
        rewards,
        values,
        following,
        over,
        gamma,
        clips,
        targets_out,
        advantages_out,
    );
    Ok(())
}

/// Writes sums of the next rewards, and how many each has.
#[pyfunction]
pub(crate) fn _n_step(
    rewards: &Bound<'_, PyAny>,
    over: &Bound<'_, PyAny>,
    gamma: f64,
    at_most: usize,
    sums: &Bound<'_, PyAny>,
    counts: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let (rewards, over) = (Numbers::<f32>::of(rewards)?, Numbers::<u8>::of(over)?);
    let mut sums = Numbers::<f32>::written(sums)?;
    let mut counts = Numbers::<i64>::written(counts)?;
    let sums = sums.slice_mut(&[rewards.range(), counts.range()])?;
    let counts = counts.slice_mut(&[rewards.range(), over.range()])?;
    let (rewards, over) = (rewards.grid()?, over.grid()?);
    same(&[rewards.shape(), over.shape()], &[sums.len(), counts.len()])?;
    helio_returns::n_step(rewards, over, gamma, at_most, sums, counts);
    Ok(())
}

/// Gives places of a tree of sums their chances: one each, or one for all.
#[pyfunction]
pub(crate) fn _set_chances(
    sums: &Bound<'_, PyAny>,
    places: &Bound<'_, PyAny>,
    chances: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let (places, chances) = (Numbers::<i64>::of(places)?, Numbers::<f64>::of(chances)?);
    let mut sums = Numbers::<f64>::written(sums)?;
    let sums = tree(sums.slice_mut(&[places.range(), chances.range()])?)?;
    let (places, chances) = (places.line()?, chances.line()?);
    if chances.len() != 1 && chances.len() != places.len() {
        return Err(PyValueError::new_err("there must be one chance, or one for each place"));
    }
    helio_returns::set(sums, places, chances)
        .map_err(|row| PyValueError::new_err(format!("there is no place {}", places[row])))
}

/// Draws a place of a tree of sums for each random number, and writes it and its weight.
#[pyfunction]
pub(crate) fn _draw_places(
    sums: &Bound<'_, PyAny>,
    randoms: &Bound<'_, PyAny>,
    size: usize,
    beta: f64,
    places: &Bound<'_, PyAny>,
    weights: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let (sums, randoms) = (Numbers::<f64>::of(sums)?, Numbers::<f64>::of(randoms)?);
    let mut places = Numbers::<i64>::written(places)?;
    let mut weights = Numbers::<f32>::written(weights)?;
    let read = [sums.range(), randoms.range(), weights.range()];
    let places = places.slice_mut(&read)?;
    let weights = weights.slice_mut(&read[..2])?;
    let (sums, randoms) = (tree(sums.line()?)?, randoms.line()?);
    same(&[(randoms.len(), 1)], &[places.len(), weights.len()])?;
    if size == 0 || size > sums.len() / 2 {
        return Err(PyValueError::new_err(format!(
            "a tree of {} places has no {size}",
            sums.len() / 2
        )));
    }
    helio_returns::draw(sums, randoms, size, beta, places, weights);
    Ok(())
}

fn tree<S: AsRef<[f64]>>(sums: S) -> PyResult<S> {
    let count = sums.as_ref().len();
    if count >= 2 && count.is_power_of_two() {
        Ok(sums)
    } else {
        Err(PyValueError::new_err(format!("no tree of sums has {count} nodes")))
    }
}
