//! Choices by priority: a tree whose nodes have the sum of the two below them.
//!
//! The tree lies in one slice: the root at 1, the children of `n` at `2 * n` and `2 * n + 1`, and the places
//! from the middle on. Each sum is taken anew from the two below, so that errors do not add up.

/// Gives places their chances, one each, or one for all.
///
/// # Errors
/// The number of the first place that the tree does not have; those before it have theirs.
///
/// # Panics
/// Where there is neither one chance nor as many as places, or the slice is not a tree.
///
/// # Examples
/// ```
/// use helio_returns::{draw, set};
///
/// // A tree of four places: a slice twice as long.
/// let mut sums = [0.0; 8];
/// set(&mut sums, &[0, 1, 2], &[1.0, 0.0, 3.0]).unwrap();
/// assert_eq!(sums[1], 4.0, "the sum of all");
/// assert_eq!(set(&mut sums, &[4], &[1.0]), Err(0), "there is no fifth place");
///
/// let (mut places, mut weights) = ([0; 2], [0.0; 2]);
/// draw(&sums, &[0.0, 0.5], 3, 0.0, &mut places, &mut weights);
/// assert_eq!(places, [0, 2]);
/// assert_eq!(weights, [1.0, 1.0]);
/// ```
pub fn set(sums: &mut [f64], places: &[i64], chances: &[f64]) -> Result<(), usize> {
    let first = leaves(sums);
    assert!(chances.len() == places.len() || chances.len() == 1);
    for (row, place) in places.iter().enumerate() {
        let place = usize::try_from(*place).ok().filter(|place| *place < first).ok_or(row)?;
        let mut node = first + place;
        sums[node] = chances[if chances.len() == 1 { 0 } else { row }];
        while node > 1 {
            node /= 2;
            sums[node] = sums[2 * node] + sums[2 * node + 1];
        }
    }
    Ok(())
}

/// Draws a place for each random number of 0 to 1, and writes it, and a weight of 1 at most that makes up
/// for how likely the place was: `(size * chance) ** -beta`, over the largest of them.
///
/// The whole is cut into as many equal parts as there are numbers, and each draws from one, so that places
/// of small chances are not left out by accident. Only the first `size` places are drawn.
///
/// # Panics
/// Where there are not as many places and weights as numbers, `size` is 0 or more than there are places, or
/// the slice is not a tree.
pub fn draw(
    sums: &[f64],
    randoms: &[f64],
    size: usize,
    beta: f64,
    places: &mut [i64],
    weights: &mut [f32],
) {
    let (first, total) = (leaves(sums), sums[1]);
    assert!(size > 0 && size <= first);
    assert_eq!([places.len(), weights.len()], [randoms.len(); 2]);
    let count = randoms.len() as f64;
    let mut largest = 0.0_f64;
    let mut drawn = vec![0.0_f64; randoms.len()];
    for (row, random) in randoms.iter().enumerate() {
        let mut wanted = (row as f64 + random) * total / count;
        let mut node = 1;
        while node < first {
            node *= 2;
            // Rounding may ask for more than there is: the side that has nothing is never the answer.
            if wanted >= sums[node] && sums[node + 1] > 0.0 {
                wanted -= sums[node];
                node += 1;
            }
        }
        let place = (node - first).min(size - 1);
        let chance = sums[first + place].max(1e-12) / total;
        drawn[row] = (size as f64 * chance).powf(-beta);
        largest = largest.max(drawn[row]);
        places[row] = place as i64;
    }
    for (weight, drawn) in weights.iter_mut().zip(drawn) {
        *weight = (drawn / largest) as f32;
    }
}

/// Returns the number of leaves of a tree.
fn leaves(sums: &[f64]) -> usize {
    assert!(sums.len() >= 2 && sums.len().is_power_of_two(), "no tree has {} nodes", sums.len());
    sums.len() / 2
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_part_of_the_whole_draws_from_the_place_that_it_lies_in() {
        let mut sums = [0.0; 8];
        set(&mut sums, &[0, 1, 2], &[1.0, 2.0, 5.0]).expect("three of four places");
        assert_eq!(sums[1], 8.0);
        let (mut places, mut weights) = ([0; 8], [0.0; 8]);
        draw(&sums, &[0.5; 8], 3, 1.0, &mut places, &mut weights);
        assert_eq!(places, [0, 1, 1, 2, 2, 2, 2, 2]);
        assert_eq!(weights, [1.0, 0.5, 0.5, 0.2, 0.2, 0.2, 0.2, 0.2]);
        set(&mut sums, &[2, 0], &[1.0]).expect("both are there");
        assert_eq!(sums[1], 4.0);
        assert_eq!(set(&mut sums, &[1, 4], &[1.0]), Err(1));
        assert_eq!(set(&mut sums, &[-1], &[1.0]), Err(0));
    }

    #[test]
    fn a_tree_of_one_place_draws_it() {
        let mut sums = [0.0; 2];
        set(&mut sums, &[0], &[3.0]).expect("there is one");
        let (mut places, mut weights) = ([7; 2], [0.0; 2]);
        draw(&sums, &[0.0, 0.99], 1, 0.4, &mut places, &mut weights);
        assert_eq!((places, weights), ([0, 0], [1.0, 1.0]));
    }

    proptest! {
        #[test]
        fn places_without_a_chance_are_never_drawn(
            chances in proptest::collection::vec(prop_oneof![Just(0.0), 1e-6_f64..1e6], 1..40),
            randoms in proptest::collection::vec(0.0_f64..1.0, 1..20),
        ) {
            prop_assume!(chances.iter().any(|chance| *chance > 0.0));
            let mut sums = vec![0.0; 2 * chances.len().next_power_of_two()];
            let all: Vec<i64> = (0..chances.len() as i64).collect();
            set(&mut sums, &all, &chances).expect("each is there");
            let (mut places, mut weights) = (vec![0; randoms.len()], vec![0.0; randoms.len()]);
            draw(&sums, &randoms, chances.len(), 0.5, &mut places, &mut weights);
            for (place, weight) in places.iter().zip(&weights) {
                prop_assert!(chances[*place as usize] > 0.0);
                prop_assert!(*weight > 0.0 && *weight <= 1.0);
            }
        }
    }
}
