//! The calls that processes knew of which have ended.
//!
//! A process that is about to end reports its calls once; answers about calls contain them from then on. A
//! process that was killed reported nothing. **LIMIT-1** [`LAST_WORDS_MAX`] processes and
//! [`LAST_WORDS_ROWS_MAX`] rows; of older reports the calls are counted.
//!
//! Workers report calls of others as well, by hearsay: the process that made them may have been killed. Where it
//! was not, its own report counts, so hearsay is kept only of calls whose end it had not seen.

use std::collections::{BTreeSet, VecDeque};

use helio_proto::inspect::{Answer, LAST_ROWS_MAX, TaskRow};
use helio_proto::tally::Tally;
use helio_types::TaskId;

use crate::limits::{LAST_WORDS_MAX, LAST_WORDS_ROWS_MAX};

/// The last report of a process, and when it came, in milliseconds.
#[derive(Debug)]
struct Report {
    answer: Answer,
    at: u64,
}

/// The last reports of processes that have ended.
#[derive(Debug, Default)]
pub(crate) struct LastWords {
    all: VecDeque<Report>,
    /// The counts of forgotten reports.
    forgotten: Tally,
}

impl LastWords {
    pub(crate) fn add(&mut self, mut answer: Answer, at: u64) {
        let kept = answer.tasks.len().min(LAST_ROWS_MAX as usize);
        let mut counts = Tally::default();
        counts.add_all(&answer.more);
        for row in answer.tasks.drain(kept..) {
            counts.add_row(&row);
        }
        answer.more = counts.counts();
        answer.total = answer.tasks.len() as u64 + counts.sum();
        answer.is_over = true;
        // A process that reports twice repeats its first report.
        self.all.retain(|one| one.answer.worker_id != answer.worker_id);
        // A call may be told by its maker and by the process that ran it: the maker is believed, unless it had not
        // seen the end.
        for maker in &self.all {
            drop_hearsay(&mut answer, &maker.answer);
        }
        for heard in &mut self.all {
            drop_hearsay(&mut heard.answer, &answer);
        }
        self.all.push_back(Report { answer, at });
        self.all.retain(|one| one.answer.total > 0);
        let mut rows: usize = self.all.iter().map(|one| one.answer.tasks.len()).sum();
        // **LIMIT-1** Of forgotten reports the counts stay, so that sums over all calls do not go back.
        while self.all.len() > LAST_WORDS_MAX || rows > LAST_WORDS_ROWS_MAX {
            let Some(Report { answer: oldest, .. }) = self.all.pop_front() else { return };
            assert!(rows >= oldest.tasks.len(), "no report would be kept any more");
            rows -= oldest.tasks.len();
            self.forgotten.add_all(&oldest.more);
            oldest.tasks.iter().for_each(|row| self.forgotten.add_row(row));
        }
    }

    /// The reports that came since that moment, the latest first.
    pub(crate) fn answers(&self, since: u64) -> impl Iterator<Item = Answer> + '_ {
        let forgotten = (since == 0 && self.forgotten.sum() > 0).then(|| Answer {
            is_over: true,
            more: self.forgotten.counts(),
            total: self.forgotten.sum(),
            ..Answer::default()
        });
        let late = self.all.iter().rev().take_while(move |one| one.at >= since);
        late.map(|one| one.answer.clone()).chain(forgotten)
    }
}

/// Leaves out of `heard` the calls that `maker` has told of itself, but for those whose end it had not seen.
fn drop_hearsay(heard: &mut Answer, maker: &Answer) {
    let is_of_maker = |row: &TaskRow| row.is_hearsay && row.maker == maker.worker_id;
    if !heard.tasks.iter().any(is_of_maker) {
        return;
    }
    let is_open = |row: &&TaskRow| !row.is_hearsay && !row.phase.is_over();
    let open: BTreeSet<TaskId> =
        maker.tasks.iter().filter(is_open).map(|row| row.task_id).collect();
    let before = heard.tasks.len();
    heard.tasks.retain(|row| !is_of_maker(row) || open.contains(&row.task_id));
    let left_out = (before - heard.tasks.len()) as u64;
    assert!(heard.total >= left_out, "calls would be counted that nobody made");
    heard.total -= left_out;
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_proto::inspect::TaskPhase;
    use helio_types::{ActorId, WorkerId};

    fn report(pid: u32, rows: usize) -> Answer {
        let mut bytes = [0; 28];
        bytes[..4].copy_from_slice(&pid.to_le_bytes());
        let worker_id = WorkerId(bytes);
        Answer { worker_id, pid, tasks: vec![TaskRow::default(); rows], ..Answer::default() }
    }

    #[test]
    fn who_speaks_twice_is_counted_once() {
        let mut words = LastWords::default();
        words.add(report(1, 3), 1);
        words.add(report(2, 1), 1);
        words.add(report(1, LAST_ROWS_MAX as usize + 5), 1);
        let totals: Vec<_> = words.answers(0).map(|answer| (answer.pid, answer.total)).collect();
        assert_eq!(totals, [(1, u64::from(LAST_ROWS_MAX) + 5), (2, 1)]);
    }

    #[test]
    fn hearsay_counts_only_where_the_maker_did_not_see_the_end() {
        let call = |number: u64, phase: TaskPhase, maker: Option<WorkerId>| TaskRow {
            task_id: TaskId::new(number, ActorId::default()),
            phase,
            is_hearsay: maker.is_some(),
            maker: maker.unwrap_or_default(),
            ..TaskRow::default()
        };
        use TaskPhase::{Finished, Sent};
        let says = |pid: u32, tasks: Vec<TaskRow>| Answer { tasks, ..report(pid, 0) };
        let (maker, killed) = (report(1, 0).worker_id, report(3, 0).worker_id);
        let own = says(1, vec![call(1, Finished, None), call(2, Sent, None)]);
        let heard = says(
            2,
            vec![
                call(1, Finished, Some(maker)),
                call(2, Finished, Some(maker)),
                call(3, Finished, Some(maker)), // its maker has counted it
                call(4, Finished, Some(killed)),
            ],
        );
        for reports in [[own.clone(), heard.clone()], [heard, own]] {
            let mut words = LastWords::default();
            reports.into_iter().for_each(|report| words.add(report, 1));
            let of_worker = words.answers(0).find(|answer| answer.pid == 2).unwrap();
            let left: Vec<TaskId> = of_worker.tasks.iter().map(|row| row.task_id).collect();
            assert_eq!(left, [2, 4].map(|number| TaskId::new(number, ActorId::default())));
            assert_eq!(of_worker.total, 2);
        }
    }

    #[test]
    fn the_latest_comes_first_and_each_has_a_bounded_number_of_rows() {
        let mut words = LastWords::default();
        words.add(report(1, 1), 1);
        words.add(report(2, LAST_ROWS_MAX as usize + 1), 1);
        let answers: Vec<Answer> = words.answers(0).collect();
        assert_eq!(answers.iter().map(|answer| answer.pid).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(answers[0].tasks.len(), LAST_ROWS_MAX as usize);
        assert_eq!(answers[0].total, u64::from(LAST_ROWS_MAX) + 1);
        assert_eq!(answers[0].more.iter().map(|one| one.count).sum::<u64>(), 1);
        assert!(answers.iter().all(|answer| answer.is_over));
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let mut words = LastWords::default();
        for pid in 0..=LAST_WORDS_MAX as u32 {
            words.add(report(pid, 1), 1);
        }
        let whole = words.answers(0).filter(|answer| !answer.tasks.is_empty());
        assert_eq!(whole.count(), LAST_WORDS_MAX);
        let mut words = LastWords::default();
        for pid in 0..=(LAST_WORDS_ROWS_MAX / LAST_ROWS_MAX as usize) as u32 {
            words.add(report(pid, LAST_ROWS_MAX as usize), 1);
        }
        let rows: usize = words.answers(0).map(|answer| answer.tasks.len()).sum();
        assert!(rows <= LAST_WORDS_ROWS_MAX, "{rows}");
        let all: u64 = words.answers(0).map(|answer| answer.total).sum();
        let said =
            (LAST_WORDS_ROWS_MAX / LAST_ROWS_MAX as usize + 1) as u64 * u64::from(LAST_ROWS_MAX);
        assert_eq!(all, said, "what is forgotten is counted");
    }

    #[test]
    fn who_asks_for_the_latest_gets_no_older_report() {
        let mut words = LastWords::default();
        words.add(report(1, 3), 10);
        words.add(report(2, 3), 20);
        let pids = |since| words.answers(since).map(|answer| answer.pid).collect::<Vec<_>>();
        assert_eq!((pids(0), pids(20), pids(21)), (vec![2, 1], vec![2], vec![]));
    }
}
