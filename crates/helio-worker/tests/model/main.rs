//! The hand-over between pollers and the pin table in every interleaving of a few threads.
//!
//! `poll_right.rs` and `memory.rs` are compiled as they ship; only their locks and their clock are the model checker's
//! (`sync.rs`). What is here besides is the world around them: a kernel with messages and a counter that wakes
//! whoever polls, and the process's state. Decision 0040 says what was planted to see that the check can fail.

#[path = "../../src/memory.rs"]
#[allow(dead_code, unreachable_pub, reason = "a part of a library here")]
mod memory;
mod pins;
#[path = "../../src/poll_right.rs"]
#[allow(dead_code, reason = "the model has no event loop that polls")]
mod poll_right;
mod sync;

use std::time::Duration;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

use poll_right::PollRight;
use sync::{Condvar, Mutex};

/// Waits that only a wake-up ends.
const LIMIT: Duration = Duration::from_secs(2);
const WAITERS: usize = 3;

#[derive(Default)]
struct Kernel {
    /// The waiters whose messages lie in the socket.
    arrived: Vec<usize>,
    /// The counter by which a poll is cut short.
    woken: bool,
}

struct World {
    poll_right: PollRight,
    kernel: Mutex<Kernel>,
    readable: Condvar,
    /// Whether each waiter has what it waits for.
    state: Mutex<[bool; WAITERS]>,
    closed: AtomicBool,
}

impl World {
    fn new() -> Self {
        Self {
            poll_right: PollRight::new(),
            kernel: Mutex::new(Kernel::default()),
            readable: Condvar::new(),
            state: Mutex::new([false; WAITERS]),
            closed: AtomicBool::new(false),
        }
    }

    fn wake_up(&self) {
        self.kernel.lock().woken = true;
        self.readable.notify_all();
    }

    /// A message for a waiter comes in.
    fn deliver(&self, waiter: usize) {
        self.kernel.lock().arrived.push(waiter);
        self.readable.notify_all();
    }

    /// `Runtime::poll`: sleeps, then takes in what has come. Whether there was a signal, and news.
    fn poll(&self) -> (bool, bool) {
        {
            let mut kernel = self.kernel.lock();
            while kernel.arrived.is_empty() && !kernel.woken {
                self.readable.wait(&mut kernel);
            }
        }
        let mut state = self.state.lock();
        let mut kernel = self.kernel.lock();
        kernel.woken = false;
        let arrived = std::mem::take(&mut kernel.arrived);
        arrived.iter().for_each(|waiter| state[*waiter] = true);
        (false, !arrived.is_empty())
    }

    /// `Runtime::changed`: a waiter gets what it waits for by another thread of the process.
    fn change(&self, waiter: usize) {
        self.state.lock()[waiter] = true;
        if self.poll_right.news() {
            self.wake_up();
        }
    }

    /// `Runtime::wait_until` without a deadline.
    fn wait(&self, waiter: usize) {
        self.wait_until(waiter, false);
    }

    /// `Runtime::wait_until`; the deadline is over after one turn.
    fn wait_a_turn(&self, waiter: usize) {
        self.wait_until(waiter, true);
    }

    fn wait_until(&self, waiter: usize, is_late: bool) {
        let is_done = || self.state.lock()[waiter].then_some(());
        let mut has_slept = false;
        loop {
            let seen = self.poll_right.changes();
            if is_done().is_some() {
                break;
            }
            let wake_net = || self.wake_up();
            let (_, found) = self.poll_right.turn(LIMIT, seen, wake_net, is_done, || self.poll());
            has_slept = true;
            if found.is_some() || is_late {
                break;
            }
        }
        if has_slept {
            self.poll_right.pass_on();
        }
    }

    /// `Runtime::net_turn`, until the end.
    fn net(&self) {
        while self.poll_right.enter_net(|| self.closed.load(Ordering::Acquire)) {
            self.poll();
            assert!(
                !self.poll_right.leave_net(),
                "no event loop is here that could want the poll right"
            );
        }
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.poll_right.close();
        self.wake_up();
    }
}

/// Every interleaving with so many preemptions at most.
fn check(preemptions: usize, story: impl Fn(Arc<World>) + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.max_branches = 10_000;
    model.check(move || story(Arc::new(World::new())));
}

fn start(world: &Arc<World>, work: impl FnOnce(&World) + 'static) -> thread::JoinHandle<()> {
    let world = Arc::clone(world);
    thread::spawn(move || work(&world))
}

fn end(threads: impl IntoIterator<Item = thread::JoinHandle<()>>) {
    threads.into_iter().for_each(|thread| thread.join().expect("it does not panic"));
}

#[test]
fn each_of_two_waiters_gets_its_message_whoever_polls() {
    check(3, |world| {
        let waiters = [0, 1].map(|waiter| start(&world, move |world| world.wait(waiter)));
        world.deliver(0);
        world.deliver(1);
        end(waiters);
    });
}

#[test]
fn a_change_by_another_thread_reaches_its_waiter_while_a_second_one_waits_for_a_message() {
    check(3, |world| {
        let first = start(&world, |world| world.wait(0));
        let second = start(&world, |world| world.wait(1));
        world.change(1);
        end([second]);
        world.deliver(0);
        end([first]);
    });
}

#[test]
fn a_waiter_whose_time_is_up_as_it_is_given_the_duty_passes_it_on() {
    check(2, |world| {
        let late = [0, 1].map(|waiter| start(&world, move |world| world.wait_a_turn(waiter)));
        let last = start(&world, |world| world.wait(2));
        world.wake_up();
        world.deliver(2);
        end([last]);
        world.deliver(0);
        world.deliver(1);
        end(late);
    });
}

#[test]
fn a_poll_that_brings_no_news_hands_the_duty_on() {
    check(3, |world| {
        let late = start(&world, |world| world.wait_a_turn(0));
        let waiter = start(&world, |world| world.wait(1));
        world.wake_up();
        world.change(0);
        end([late]);
        world.deliver(1);
        end([waiter]);
    });
}

#[test]
fn the_net_thread_and_a_waiter_hand_the_duty_to_each_other() {
    check(3, |world| {
        let net = start(&world, World::net);
        let waiter = start(&world, |world| world.wait(0));
        world.deliver(0);
        end([waiter]);
        world.close();
        end([net]);
    });
}

#[test]
fn a_change_reaches_a_waiter_while_the_net_thread_polls() {
    check(3, |world| {
        let net = start(&world, World::net);
        let waiter = start(&world, |world| world.wait(0));
        world.change(0);
        end([waiter]);
        world.close();
        end([net]);
    });
}
