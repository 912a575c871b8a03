//! V-trace: targets and advantages of actions that an older policy chose.

use crate::Grid;

/// The bounds of the importance ratios: how much likelier the new policy makes an action.
#[derive(Clone, Copy, Debug)]
pub struct Clips {
    /// In targets.
    pub rho: f64,
    /// In advantages.
    pub pg_rho: f64,
}

/// Writes targets of values, and advantages of policies.
///
/// `log_ratios` are logs of how much likelier each action is now than it was when it was chosen. What a step
/// led to counts by its target where the episode goes on, and by its value where it does not.
///
/// # Panics
/// Where shapes differ.
#[expect(clippy::too_many_arguments, reason = "each is a column of the sample, or a setting")]
pub fn vtrace(
    log_ratios: Grid<'_, f32>,
    rewards: Grid<'_, f32>,
    values: Grid<'_, f32>,
    following: Grid<'_, f32>,
    over: Grid<'_, u8>,
    gamma: f64,
    clips: Clips,
    targets: &mut [f32],
    advantages: &mut [f32],
) {
    let (steps, envs) = rewards.shape();
    let shapes = [log_ratios.shape(), values.shape(), following.shape(), over.shape()];
    assert_eq!(shapes, [(steps, envs); 4]);
    assert_eq!([targets.len(), advantages.len()], [steps * envs; 2]);
    // Of each environment: what later steps add to a value, and the next step's target.
    let mut later = vec![(0.0_f64, 0.0_f64); envs];
    for step in (0..steps).rev() {
        for (env, (running, target)) in later.iter_mut().enumerate() {
            let ratio = f64::from(log_ratios.at(step, env)).exp();
            let (reward, value) =
                (f64::from(rewards.at(step, env)), f64::from(values.at(step, env)));
            let led_to = f64::from(following.at(step, env));
            let goes_on = over.at(step, env) == 0;
            let after = if goes_on && step + 1 < steps { *target } else { led_to };
            let kept = if goes_on { gamma * ratio.min(1.0) } else { 0.0 };
            *running = ratio.min(clips.rho) * (reward + gamma * led_to - value) + kept * *running;
            *target = value + *running;
            targets[step * envs + env] = *target as f32;
            advantages[step * envs + env] =
                (ratio.min(clips.pg_rho) * (reward + gamma * after - value)) as f32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_same_policy_targets_are_what_was_left_of_the_episode() {
        let shape = (3, 1);
        let grid = |numbers: &'static [f32]| Grid::rows(numbers, shape).expect("three");
        let over = Grid::rows(&[0_u8, 0, 1], shape).expect("three");
        let (mut targets, mut advantages) = ([0.0; 3], [0.0; 3]);
        let nothing = grid(&[0.0; 3]);
        let clips = Clips { rho: 1.0, pg_rho: 1.0 };
        vtrace(
            nothing,
            grid(&[1.0, 2.0, 4.0]),
            grid(&[0.5, 0.25, 0.125]),
            grid(&[0.25, 0.125, 0.0]),
            over,
            0.5,
            clips,
            &mut targets,
            &mut advantages,
        );
        assert_eq!(targets, [3.0, 4.0, 4.0]);
        assert_eq!(advantages, [2.5, 3.75, 3.875]);
    }

    #[test]
    fn an_action_that_is_unlikely_now_hardly_counts() {
        let one = |number: &'static [f32]| Grid::rows(number, (1, 1)).expect("one");
        let over = Grid::rows(&[0_u8], (1, 1)).expect("one");
        let (mut targets, mut advantages) = ([0.0], [0.0]);
        let clips = Clips { rho: 1.0, pg_rho: 1.0 };
        let (unlikely, value) = (one(&[-50.0]), one(&[2.0]));
        vtrace(
            unlikely,
            one(&[9.0]),
            value,
            one(&[0.0]),
            over,
            1.0,
            clips,
            &mut targets,
            &mut advantages,
        );
        assert_eq!(targets, [2.0]);
        assert!(advantages[0] < 1e-6);
    }
}
