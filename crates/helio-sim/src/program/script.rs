//! The script of each kind of call.

use crate::ops::Job::{
    Ask, Big, Construct, ConstructFails, Crash, Flaky, Forget, Give, Hire, Keep, Leaf, Look, Nest,
    Raise, Read, Slow, Spawn, Stream, Wrap,
};
use crate::ops::{AGAIN, ActorOp, CHILD, CallOp, Job, KEPT, Needs, Op, PUT, Slot, Target};
use crate::rng::Rng;
use crate::value::Body;

/// Returns the script of a call. It depends on nothing but the body, and whether this is a first attempt.
pub(crate) fn script(body: &Body, is_retry: bool, returns: u32) -> Vec<Op> {
    let mut rng = Rng::new(body.salt);
    let inner: Vec<Slot> = (0..body.inner.len() as u32).collect();
    let plain: Vec<Slot> =
        inner.iter().copied().filter(|slot| body.inner[*slot as usize].actor.is_none()).collect();
    let short = Op::Sleep(rng.range(1, 400));
    let is_odd = rng.one_in(2);
    let done = |is_big, give| Op::Return { is_big, give };
    match Job::of(body.kind) {
        Leaf => vec![short, done(false, vec![])],
        Big => vec![short, done(true, vec![])],
        Slow => vec![Op::Sleep(rng.range(1_000, 60_000)), done(is_odd, vec![])],
        Wrap => {
            let put =
                Op::Put { to: PUT, is_big: rng.one_in(2), salt: rng.draw(), inner: plain.clone() };
            vec![short, put, done(is_odd, inner.into_iter().chain([PUT]).collect())]
        }
        Nest | Spawn => {
            let mut ops = vec![short];
            let children: Vec<Slot> = (0..body.count).map(|place| CHILD + place).collect();
            for to in &children {
                ops.push(Op::Submit(Box::new(child(&mut rng, body, &plain, *to))));
            }
            if Job::of(body.kind) == Nest {
                ops.push(Op::Get { slots: children, open: false });
                ops.push(done(is_odd, vec![]));
            } else {
                ops.push(done(is_odd, children));
            }
            ops
        }
        Read => vec![short, Op::Get { slots: plain, open: true }, done(false, vec![])],
        Flaky if is_retry => vec![short, done(false, vec![])],
        Raise | Flaky => {
            let retryable = Job::of(body.kind) == Flaky || body.count == AGAIN;
            vec![short, Op::Raise { retryable }]
        }
        Stream => {
            let mut ops = Vec::new();
            for index in 0..body.count {
                ops.push(Op::Sleep(rng.range(1, 3_000)));
                ops.push(Op::Item {
                    index,
                    is_big: rng.one_in(3),
                    give: if is_odd { plain.clone() } else { vec![] },
                });
            }
            ops.push(done(false, vec![]));
            ops
        }
        Keep => vec![Op::Keep, done(false, vec![])],
        Look => vec![
            Op::Recall(KEPT),
            Op::Get { slots: (KEPT..KEPT + 8).collect(), open: false },
            done(is_odd, vec![]),
        ],
        Forget => vec![Op::Forget, short, done(false, vec![])],
        Give => vec![Op::Recall(KEPT), done(is_odd, (KEPT..KEPT + 8).collect())],
        Crash => vec![short, Op::Crash],
        Construct => vec![short, Op::Keep, Op::Ready { fails: false }],
        ConstructFails => vec![short, Op::Ready { fails: returns == 0 }],
        Ask => {
            let actors = inner.iter().copied().filter(|slot| !plain.contains(slot));
            let (mut ops, mut made) = (vec![short], Vec::new());
            for (actor, to) in actors.zip(CHILD..) {
                let call = CallOp {
                    job: Leaf,
                    deps: vec![],
                    inner: vec![],
                    retries: -1,
                    actor: Some(actor),
                    ..child(&mut rng, body, &plain, to)
                };
                ops.push(Op::Submit(Box::new(call)));
                made.push(to);
            }
            ops.push(Op::Get { slots: made, open: false });
            ops.push(done(is_odd, vec![]));
            ops
        }
        Hire => {
            let restarts = *rng.pick(&[0, -1]).unwrap_or(&0);
            let mut ops = vec![short, Op::Actor(Box::new(ActorOp::plain(&mut rng, restarts, PUT)))];
            let made: Vec<Slot> = (0..body.count).map(|place| CHILD + place).collect();
            for to in &made {
                let call = CallOp {
                    job: Slow,
                    deps: vec![],
                    inner: vec![],
                    actor: Some(PUT),
                    ..child(&mut rng, body, &plain, *to)
                };
                ops.push(Op::Submit(Box::new(call)));
            }
            ops.push(Op::Get { slots: made, open: false });
            ops.push(done(is_odd, vec![]));
            ops
        }
    }
}

fn child(rng: &mut Rng, body: &Body, plain: &[Slot], to: Slot) -> CallOp {
    let job = match rng.below(5) {
        0 if body.depth > 0 => Nest,
        1 => Big,
        2 => Slow,
        3 if !plain.is_empty() => Read,
        _ => Leaf,
    };
    let some: Vec<Slot> = rng.pick(plain).copied().into_iter().collect();
    let (deps, inner) = if rng.one_in(2) && job != Read { (some, vec![]) } else { (vec![], some) };
    CallOp {
        job,
        salt: rng.draw(),
        deps,
        inner,
        count: 2,
        depth: body.depth.saturating_sub(1),
        retries: 3,
        is_stored: rng.one_in(10),
        actor: None,
        cpu: 100,
        backpressure: 0,
        to: vec![to],
        place: None,
        target: Target::Anywhere,
        needs: Needs::default(),
    }
}
