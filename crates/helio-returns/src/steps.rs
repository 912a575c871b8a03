//! Advantages, what steps led to, and sums of the next rewards.

use crate::Grid;

/// The ends of episodes within a sample, and their values.
#[derive(Clone, Copy, Debug)]
pub struct Ends<'a> {
    /// Step and environment of each end.
    pub places: Grid<'a, i64>,
    /// The value of what each ended with.
    pub values: &'a [f32],
}

/// Writes the value of what each step led to: of the next step's observation, or of what the episode ended
/// with, or 0 where nothing follows.
///
/// `values` are of what was observed before each step, `last` of what environments show after the last
/// one. Returns the first end that is no place of the sample, and writes nothing more then.
///
/// # Errors
/// The number of an end that is outside of the sample.
///
/// # Panics
/// Where shapes differ.
pub fn following(
    values: Grid<'_, f32>,
    last: &[f32],
    terminated: Grid<'_, u8>,
    ends: Ends<'_>,
    out: &mut [f32],
) -> Result<(), usize> {
    let (steps, envs) = values.shape();
    assert_eq!(terminated.shape(), (steps, envs));
    assert_eq!((last.len(), out.len()), (envs, steps * envs));
    assert_eq!(ends.places.shape(), (ends.values.len(), 2));
    for step in 0..steps {
        for env in 0..envs {
            out[step * envs + env] =
                if step + 1 < steps { values.at(step + 1, env) } else { last[env] };
        }
    }
    for (row, value) in ends.values.iter().enumerate() {
        let inside = |number: i64, count: usize| {
            usize::try_from(number).ok().filter(|number| *number < count)
        };
        let step = inside(ends.places.at(row, 0), steps).ok_or(row)?;
        let env = inside(ends.places.at(row, 1), envs).ok_or(row)?;
        out[step * envs + env] = *value;
    }
    for step in 0..steps {
        for env in 0..envs {
            if terminated.at(step, env) != 0 {
                out[step * envs + env] = 0.0;
            }
        }
    }
    Ok(())
}

/// Writes generalized advantage estimates: of each step the differences between what came and what was
/// expected, those of later steps of the episode times `gamma * lambda` a step.
///
/// # Panics
/// Where shapes differ.
pub fn advantages(
    rewards: Grid<'_, f32>,
    values: Grid<'_, f32>,
    following: Grid<'_, f32>,
    over: Grid<'_, u8>,
    gamma: f64,
    lambda: f64,
    out: &mut [f32],
) {
    let (steps, envs) = rewards.shape();
    assert_eq!([values.shape(), following.shape(), over.shape()], [(steps, envs); 3]);
    assert_eq!(out.len(), steps * envs);
    let mut running = vec![0.0_f64; envs];
    for step in (0..steps).rev() {
        for (env, running) in running.iter_mut().enumerate() {
            let delta = f64::from(rewards.at(step, env))
                + gamma * f64::from(following.at(step, env))
                - f64::from(values.at(step, env));
            let kept = if over.at(step, env) == 0 { gamma * lambda } else { 0.0 };
            *running = delta + kept * *running;
            out[step * envs + env] = *running as f32;
        }
    }
}

/// Writes the sum of each step's reward and of the next ones of its episode, `at_most` in all, each times
/// `gamma` once more than the one before; and how many there were.
///
/// # Panics
/// Where shapes differ.
///
/// # Examples
/// ```
/// use helio_returns::{Grid, n_step};
///
/// // One environment, whose episode ends with the second step.
/// let (rewards, over) = ([1.0, 2.0, 4.0], [0, 1, 0]);
/// let (mut sums, mut counts) = ([0.0; 3], [0; 3]);
/// let rewards = Grid::rows(&rewards, (3, 1)).unwrap();
/// let over = Grid::rows(&over, (3, 1)).unwrap();
/// n_step(rewards, over, 0.5, 2, &mut sums, &mut counts);
/// assert_eq!(sums, [2.0, 2.0, 4.0]);
/// assert_eq!(counts, [2, 1, 1]);
/// ```
pub fn n_step(
    rewards: Grid<'_, f32>,
    over: Grid<'_, u8>,
    gamma: f64,
    at_most: usize,
    sums: &mut [f32],
    counts: &mut [i64],
) {
    let (steps, envs) = rewards.shape();
    assert_eq!(over.shape(), (steps, envs));
    assert_eq!([sums.len(), counts.len()], [steps * envs; 2]);
    for step in 0..steps {
        for env in 0..envs {
            let (mut sum, mut weight, mut count) = (0.0, 1.0, 0);
            for later in step..steps.min(step + at_most.max(1)) {
                sum += weight * f64::from(rewards.at(later, env));
                weight *= gamma;
                count += 1;
                if over.at(later, env) != 0 {
                    break;
                }
            }
            sums[step * envs + env] = sum as f32;
            counts[step * envs + env] = count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: (usize, usize) = (3, 2);
    const REWARDS: [f32; 6] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    /// The first environment's episode ends after two steps.
    const OVER: [u8; 6] = [0, 0, 1, 0, 0, 0];

    fn grid<T: Copy>(numbers: &[T]) -> Grid<'_, T> {
        Grid::rows(numbers, SHAPE).expect("as many as the shape says")
    }

    #[test]
    fn without_values_advantages_are_what_is_left_of_the_episode() {
        let (nothing, mut out) = ([0.0; 6], [0.0; 6]);
        let none = grid(&nothing);
        advantages(grid(&REWARDS), none, none, grid(&OVER), 0.5, 1.0, &mut out);
        assert_eq!(out, [1.0 + 1.5, 2.0 + 2.0 + 1.5, 3.0, 4.0 + 3.0, 5.0, 6.0]);
    }

    #[test]
    fn sums_stop_where_an_episode_or_the_sample_does() {
        let (mut sums, mut counts) = ([0.0; 6], [0; 6]);
        n_step(grid(&REWARDS), grid(&OVER), 0.5, 2, &mut sums, &mut counts);
        assert_eq!(sums, [2.5, 4.0, 3.0, 7.0, 5.0, 6.0]);
        assert_eq!(counts, [2, 2, 1, 2, 1, 1]);
        n_step(grid(&REWARDS), grid(&OVER), 0.5, 1, &mut sums, &mut counts);
        assert_eq!(sums, REWARDS);
    }

    #[test]
    fn what_a_step_led_to_is_the_next_value_the_last_one_or_nothing() {
        let places = [1_i64, 0, 0, 1];
        let ends =
            Ends { places: Grid::rows(&places, (2, 2)).expect("two ends"), values: &[10.0, 20.0] };
        let mut out = [0.0; 6];
        let terminated = [0, 0, 1, 0, 0, 0];
        following(grid(&REWARDS), &[7.0, 8.0], grid(&terminated), ends, &mut out)
            .expect("both are inside");
        assert_eq!(out, [3.0, 20.0, 0.0, 6.0, 7.0, 8.0]);
        let beyond = [1_i64, 0, 3, 1];
        let ends = Ends { places: Grid::rows(&beyond, (2, 2)).expect("two ends"), ..ends };
        let found = following(grid(&REWARDS), &[7.0, 8.0], grid(&terminated), ends, &mut out);
        assert_eq!(found, Err(1));
    }
}
