//! The choice of the replica of Serve that gets the next request: the rule of the ingress and of the handles of a process.

#![forbid(unsafe_code)]

/// The turn among replicas that have equally many requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Turns {
    next: usize,
}

impl Turns {
    /// The place of the replica with the fewest requests, of those that have fewer than `most`; among equals those have
    /// their turn that had none for longest.
    ///
    /// `ongoing` says how many the replica at a place has, `None` for one that takes none. It is asked for each place
    /// at most once, and not beyond a replica that has no request.
    ///
    /// ```
    /// use helio_turns::Turns;
    ///
    /// let mut turns = Turns::default();
    /// // The replica in the middle is ending; none may have more than five requests.
    /// let ongoing = [Some(2), None, Some(1)];
    /// assert_eq!(turns.pick(3, 5, |place| ongoing[place]), Some(2));
    /// assert_eq!(turns.pick(3, 1, |place| ongoing[place]), None, "all are full");
    /// ```
    pub fn pick(
        &mut self,
        count: usize,
        most: u32,
        mut ongoing: impl FnMut(usize) -> Option<u32>,
    ) -> Option<usize> {
        let (mut found, mut least) = (None, most);
        for step in 0..count {
            let place = (self.next % count + step) % count;
            let Some(has) = ongoing(place) else { continue };
            if has < least {
                (found, least) = (Some(place), has);
                if has == 0 {
                    break;
                }
            }
        }
        if let Some(place) = found {
            self.next = (place + 1) % count;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pick(turns: &mut Turns, most: u32, ongoing: &[Option<u32>]) -> Option<usize> {
        turns.pick(ongoing.len(), most, |place| ongoing[place])
    }

    #[test]
    fn the_fewest_requests_win_and_a_full_or_leaving_replica_gets_none() {
        let mut turns = Turns::default();
        assert_eq!(pick(&mut turns, 5, &[Some(3), Some(1), Some(2)]), Some(1));
        assert_eq!(pick(&mut turns, 5, &[Some(3), None, Some(2)]), Some(2));
        assert_eq!(pick(&mut turns, 2, &[Some(3), None, Some(2)]), None);
        assert_eq!(pick(&mut turns, 2, &[]), None);
    }

    #[test]
    fn equals_have_their_turn_one_after_the_other() {
        let mut turns = Turns::default();
        let idle = [Some(0); 3];
        let order: Vec<_> = (0..5).filter_map(|_| pick(&mut turns, 1, &idle)).collect();
        assert_eq!(order, [0, 1, 2, 0, 1]);
        // After a replica has gone the turn is still at one that there is.
        assert_eq!(pick(&mut turns, 1, &idle[..1]), Some(0));
        // Where nobody has room, nobody's turn is over.
        assert_eq!(pick(&mut turns, 1, &[Some(1), Some(1)]), None);
        assert_eq!(pick(&mut turns, 2, &[Some(1), Some(1)]), Some(0));
    }
}
