//! A view of numbers of steps and environments.

/// A table with a number for each step of each environment, as they lie in memory.
#[derive(Clone, Copy, Debug)]
pub struct Grid<'a, T> {
    numbers: &'a [T],
    shape: (usize, usize),
    strides: (usize, usize),
}

impl<'a, T: Copy> Grid<'a, T> {
    /// A view of `shape` (steps, environments), whose neighbours lie `strides` numbers apart; `None` where
    /// it reaches beyond `numbers`.
    ///
    /// ```
    /// use helio_returns::Grid;
    ///
    /// // Three steps of two environments, each environment's steps one after the other.
    /// let numbers = [1, 2, 3, 4, 5, 6];
    /// assert_eq!(Grid::new(&numbers, (3, 2), (1, 3)).unwrap().shape(), (3, 2));
    /// assert!(Grid::new(&numbers, (3, 3), (1, 3)).is_none(), "it would reach beyond the numbers");
    /// ```
    #[must_use]
    pub fn new(numbers: &'a [T], shape: (usize, usize), strides: (usize, usize)) -> Option<Self> {
        let reach = |count: usize, stride: usize| count.checked_sub(1)?.checked_mul(stride);
        let fits = match (reach(shape.0, strides.0), reach(shape.1, strides.1)) {
            (Some(down), Some(across)) => down.checked_add(across)? < numbers.len(),
            _ => true, // one of them is empty
        };
        fits.then_some(Self { numbers, shape, strides })
    }

    /// Rows of steps, each with its environments one after the other.
    #[must_use]
    pub fn rows(numbers: &'a [T], shape: (usize, usize)) -> Option<Self> {
        Self::new(numbers, shape, (shape.1, 1))
    }

    /// Steps and environments.
    #[must_use]
    pub fn shape(&self) -> (usize, usize) {
        self.shape
    }

    pub(crate) fn at(&self, step: usize, env: usize) -> T {
        self.numbers[step * self.strides.0 + env * self.strides.1]
    }
}

#[cfg(test)]
mod tests {
    use super::Grid;

    #[test]
    fn a_view_reads_either_order_and_refuses_what_is_beyond() {
        let numbers = [0, 1, 2, 3, 4, 5];
        let rows = Grid::rows(&numbers, (2, 3)).expect("six of six");
        let columns = Grid::new(&numbers, (3, 2), (1, 3)).expect("six of six");
        assert_eq!((rows.at(1, 0), rows.at(0, 2)), (3, 2));
        assert_eq!((columns.at(1, 0), columns.at(0, 1)), (1, 3));
        assert!(Grid::rows(&numbers, (3, 3)).is_none());
        assert!(Grid::new(&numbers, (2, 2), (usize::MAX, 1)).is_none());
        assert!(Grid::rows(&numbers[..0], (0, 3)).is_some());
        assert!(Grid::new(&numbers[..1], (4, 4), (0, 0)).is_some());
    }
}
