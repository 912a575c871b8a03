"""Known answers: follows a program in plain Python and says what each reading must give.

Values are certain unless a fault that the program itself asked for may hit them; then the reading
may also give one of the errors that this fault explains. Programs that break a rule are refused
(``Invalid``): those that could hang by their own fault, or whose outcome nobody can know.
"""

from __future__ import annotations

from typing import Any

from tests.programs import model
from tests.programs.graph import (
    ACTOR_ERROR,
    MAX_RETRIES,
    Actor,
    Outcome,
    Ref,
    Running,
    Stream,
    attempts_until_value,
    calls_of,
    children,
    inside,
    literal_key,
    maker_of,
    max_retries,
    put_key,
    returned,
    trouble_errors,
)
from tests.programs.kit import NONE_KEY, fold
from tests.programs.model import Fn, Op, Param, Program, Value

OWNER_ERRORS = ("OwnerDiedError", "ObjectLostError", "ReferenceCountingAssertionError")
BUNDLE_IS_TAKEN = "holds the CPU of a bundle that others of the group need"
# Ways of reading in which the runtime does not know that the call waits.
HOLDING_CPU = {"by_future", "by_futures_completed", "by_callback", "by_thread", "by_pool"}


class Invalid(Exception):
    """The program breaks a rule."""


PLACES = {
    "main": "driver",
    "thread": "thread of a driver",
    "loop": "loop of a driver",
    "thread loop": "loop in a thread",
}


class Oracle:
    """The state after some operations of a driver; ``apply`` follows one more."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.names: dict[str, Any] = {}
        self.fns: dict[str, tuple[Fn, dict[str, Ref]]] = {}
        self.calls: list[Running] = []
        self.most: dict[str, int] = {}
        self.reached: list[tuple[str, str, str, str, str]] = []
        self.actors: dict[str, Actor] = {}
        self.nodes: dict[str, bool] = {}
        self.has_dead_node = False

    # Names ----------------------------------------------------------------------------------------

    def get(self, name: str, kind: type[Any]) -> Any:
        found = self.names.get(name)
        if not isinstance(found, kind):
            raise Invalid(f"{name} is no {kind.__name__}")
        return found

    def ref(self, name: str) -> Ref:
        found = self.get(name, Ref)
        assert isinstance(found, Ref)
        return found

    def actor(self, name: str) -> Actor:
        found = self.get(name, Actor)
        assert isinstance(found, Actor)
        return found

    # Outcomes -------------------------------------------------------------------------------------

    def outcome(self, ref: Ref) -> Outcome:
        """What reading the reference and those inside gives."""
        outer = self.outer(ref)
        if outer.key is None or not ref.holds:
            return outer
        parts, errors = [outer.key], set(outer.errors)
        for inner in ref.holds:
            found = self.outcome(inner)
            errors |= found.errors
            if found.key is None:
                return Outcome(None, frozenset(errors))
            parts.append(found.key)
        return Outcome(fold("holder", parts), frozenset(errors))

    def outer(self, ref: Ref) -> Outcome:
        """Without the references inside."""
        taints = frozenset(ref.taints | self._of_owner(ref))
        if ref.call is None:
            return Outcome(ref.key, taints)
        found = self._of_call(ref.call, ref.index)
        if found.key is not None and ref.value.kind == "none":
            found = Outcome(NONE_KEY, found.errors)
        return Outcome(found.key, found.errors | taints)

    def _of_owner(self, ref: Ref) -> set[str]:
        if ref.owner == "driver":
            return set()
        if ref.owner == "task":
            is_lost = self.program.ends_workers or self.has_dead_node
            return set(OWNER_ERRORS) if is_lost else set()
        actor = self.actors[ref.owner]
        return set(OWNER_ERRORS) if actor.is_dead or actor.taints or actor.is_dropped else set()

    def _of_call(self, call: Running, index: int) -> Outcome:
        errors = set(call.taints)
        if call.is_certain_error:
            # The error of an argument may be known before.
            of_inputs = {error for ref in call.first for error in self.outer(ref).errors}
            return Outcome(None, frozenset(errors | call.is_certain_error | of_inputs))
        for ref in call.first:
            found = self.outer(ref)
            errors |= found.errors
            if found.key is None:
                return Outcome(None, frozenset(errors))
        trouble = call.fn.trouble
        if trouble is not None and trouble.what == "fail" and ACTOR_ERROR in errors:
            # The end of its actor, before the call began, takes a retry that its own error needs.
            errors |= trouble_errors(call)
        is_late = trouble is not None and call.fn.is_stream and index < trouble.after
        if attempts_until_value(call) is None and not is_late:
            return Outcome(None, frozenset(errors | trouble_errors(call)))
        parts: list[int] = []
        for part in call.reads:
            if isinstance(part, int):
                parts.append(part)
                continue
            found = self.outcome(part)
            errors |= found.errors
            if found.key is None:
                return Outcome(None, frozenset(errors))
            parts.append(found.key)
        return Outcome(fold(call.tag, [*parts, index]), frozenset(errors))

    # Operations -----------------------------------------------------------------------------------

    def apply(self, op: Op) -> list[list[Any]]:
        """Follow the operation; returns what its readings must give."""
        handler = getattr(self, "_" + type(op).__name__.lower())
        found: list[list[Any]] = handler(op) or []
        return found

    def _new(self, *names: str) -> None:
        for name in names:
            if name in self.names or name in self.fns:
                raise Invalid(f"{name} is taken")

    def _define(self, op: model.Define) -> None:
        self._new(op.fn.name)
        captured = {p.name: self.ref(p.name) for p in op.fn.params if p.mode == "closure"}
        for ref in captured.values():
            if any(call.is_hung for call in calls_of(ref)):
                raise Invalid("captures what hangs")
            if ref.holds or ref.call is not None:
                raise Invalid("its arguments would be kept for good as well")
        self.fns[op.fn.name] = (op.fn, captured)

    def _put(self, op: model.Put) -> None:
        self._new(op.out)
        holds = tuple(self.ref(name) for name in op.holds)
        self.names[op.out] = Ref("put", op.value, put_key(op.out, op.value), holds=holds)

    def _makeactor(self, op: model.MakeActor) -> None:
        self._new(op.out)
        self._check_place(op.place)
        if any(call.is_hung for call in self._in_group(op.place)):
            raise Invalid(BUNDLE_IS_TAKEN)
        actor = Actor(op.out, op.cls, place=op.place)
        if op.cls.crashes_in_init:
            self._crashes_in_init(actor)
        self.actors[op.out] = actor
        self.names[op.out] = actor

    def _crashes_in_init(self, actor: Actor) -> None:
        if actor.cls.is_ordered:
            raise Invalid("an ordered actor does not crash")
        troubles = [method.trouble.what for method in actor.cls.methods if method.trouble]
        is_crashed_later = "crash" in troubles or "leave" in troubles
        if is_crashed_later and not self._rides_out(actor):
            raise Invalid("its calls and its constructor would share its restarts")
        if actor.cls.options.get("max_task_retries", 0) != -1:
            # What is called while it restarts fails at once.
            actor.taints.add(ACTOR_ERROR)
        self.most[f"{actor.name}.init"] = 1 + actor.n_restarts

    def _check_place(self, place: str) -> None:
        known = place in ("", "n0", "n1", "n2") or place in self.nodes
        if not known and self.names.get(place) != "group":
            raise Invalid(f"no place {place}")
        if self.nodes.get(place) is False:
            raise Invalid("the node is gone")

    def _call(self, op: model.Call) -> None:
        self._new(*op.outs)
        self._check_place(op.place)
        if op.actor:
            actor: Actor | None = self.actor(op.actor)
            assert actor is not None
            fns = {fn.name: (fn, {}) for fn in actor.cls.methods}
        else:
            actor, fns = None, self.fns
        if op.fn not in fns:
            raise Invalid(f"no function {op.fn}")
        fn, captured = fns[op.fn]
        if self.names.get(op.place) == "group" and fn.options.get("num_cpus", 1) > 1:
            raise Invalid("no bundle is that large")
        if (
            self.names.get(op.place) == "group"
            and "_generator_backpressure_num_objects" in fn.options
        ):
            raise Invalid("waits in a bundle for its reader")
        known = dict(self.names)
        call = self._start(op, fn, actor, known, captured, op.outs[0], "driver", 1)
        self._finish_call(call, op.outs, fn, "driver")

    def _finish_call(self, call: Running, outs: tuple[str, ...], fn: Fn, owner: str) -> None:
        refs = returned(call, owner)
        if fn.is_stream:
            if len(outs) != 1:
                raise Invalid("a stream has one name")
            self.names[outs[0]] = Stream(call, owner, refs)
            return
        if len(outs) != len(refs):
            raise Invalid("as many names as returns")
        self.names.update(zip(outs, refs, strict=True))

    def _start(
        self,
        op: model.Call,
        fn: Fn,
        actor: Actor | None,
        known: dict[str, Any],
        captured: dict[str, Ref],
        tag: str,
        owner: str,
        most: int,
    ) -> Running:
        """The call with everything that its body does."""
        options = {**fn.options, **op.options}
        maker = maker_of(fn, actor, options)
        call = Running(tag, fn, maker, owner, options, actor, place=op.place)
        place = "task" if actor is None else f"{actor.cls.kind} actor"
        local: dict[str, Any] = dict(captured)
        if actor is not None and actor.cls.is_ordered:
            if owner != "driver":
                raise Invalid("only the driver calls an ordered actor")
            if options.get("retry_exceptions"):
                raise Invalid("each attempt would count")
            call.reads.append(actor.n_calls + 1)
        args = iter(op.args)
        first: list[Ref] = []
        for param in fn.params:
            if param.mode == "closure":
                call.reads.append(captured[param.name])
                self._reach(captured[param.name], place, "closure, " + param.way)
                continue
            arg = next(args, None)
            self._bind(call, param, arg, known, local, place, first)
        call.first = first
        attempts = self._attempts(call)
        self.most[tag] = max(self.most.get(tag, 0), most * attempts)
        self._body(call, fn.body, local, place, most * attempts)
        self._guard(call, actor)
        if actor is not None:
            self._on_actor(call, actor)
        self.calls.append(call)
        return call

    def _attempts(self, call: Running) -> int:
        retries = max_retries(call)
        trouble = call.fn.trouble
        needed = attempts_until_value(call)
        if call.options.get("retry_exceptions"):
            return 1 + retries
        if self.program.session == "nodes" and self.nodes:
            return 1 + max(retries, 0)
        if call.actor is not None and call.actor.cls.options.get("max_restarts"):
            # The crash of another call may take along an answer that had not left yet.
            return 1 + retries
        if trouble is not None and trouble.what in ("crash", "leave"):
            return needed or 1 + retries
        return 1

    def _bind(
        self,
        call: Running,
        param: Param,
        arg: Any,
        known: dict[str, Any],
        local: dict[str, Any],
        place: str,
        first: list[Ref],
    ) -> None:
        if param.mode == "literal":
            if not isinstance(arg, Value):
                raise Invalid("a literal is a value")
            key = literal_key(call.tag, param.name)
            call.reads.append(NONE_KEY if arg.kind == "none" else key)
        elif param.mode == "handle":
            if not isinstance(known.get(str(arg)), Actor):
                raise Invalid("a handle is of an actor")
            local[param.name] = known[str(arg)]
        elif param.mode in ("top", "keyword"):
            ref = known.get(str(arg))
            if not isinstance(ref, Ref):
                raise Invalid("an argument is a reference")
            first.append(ref)
            call.reads.append(ref)
            self._reach(ref, place, "argument" if param.mode == "top" else "keyword argument")
        else:
            refs = [known.get(name) for name in arg or ()]
            if not refs or not all(isinstance(ref, Ref) for ref in refs):
                raise Invalid("a list is of references")
            for ref in refs:
                assert isinstance(ref, Ref)
                call.reads.append(ref)
                self._reach(ref, place, f"inside a {param.mode}, {param.way}")

    def _in_group(self, place: str) -> list[Running]:
        """The calls that were given to a placement group and not read yet; none if it is no group."""
        if self.names.get(place) != "group":
            return []
        return [call for call in self.calls if call.place == place and not call.is_done]

    def _guard_bundle(self, call: Running) -> None:
        """Refuse what hangs with the CPU of a bundle that others need: they are placed in any order."""
        others = self._in_group(call.place)
        if any(other.is_hung for other in others):
            raise Invalid(BUNDLE_IS_TAKEN)
        is_group = self.names.get(call.place) == "group"
        actors = [a for a in self.actors.values() if a.place == call.place and not a.is_dead]
        if call.is_hung and is_group and (others or actors):
            raise Invalid(BUNDLE_IS_TAKEN)

    def _body(
        self, call: Running, body: tuple[Op, ...], local: dict[str, Any], place: str, most: int
    ) -> None:
        """Follow the operations of a body; what it makes belongs to its process."""
        owner = "task" if call.actor is None else call.actor.name
        fns: dict[str, tuple[Fn, dict[str, Ref]]] = {}
        for op in body:
            if isinstance(op, model.Define):
                fns[op.fn.name] = (op.fn, {})
            elif isinstance(op, model.Put):
                holds = tuple(local[name] for name in op.holds if name in local)
                if len(holds) != len(op.holds):
                    raise Invalid("holds what is not there")
                key = put_key(f"{call.tag}.{op.out}", op.value)
                maker = "put in a task" if owner == "task" else "put in an actor"
                local[op.out] = Ref(maker, op.value, key, holds=holds, owner=owner)
            elif isinstance(op, model.Call):
                actor = local.get(op.actor) if op.actor else None
                if op.actor and not isinstance(actor, Actor):
                    raise Invalid("no such actor")
                if owner != "task" and not self.program.ends_workers:
                    raise Invalid("who works for an actor may end with it")
                known = {f.name: (f, {}) for f in actor.cls.methods} if actor else fns
                if op.fn not in known or known[op.fn][0].is_stream:
                    raise Invalid("no such function")
                fn, captured = known[op.fn]
                tag = f"{call.tag}.{op.outs[0]}"
                child = self._start(op, fn, actor, local, captured, tag, owner, most)
                call.children.append(child)
                refs = returned(child, owner)
                if len(refs) != len(op.outs):
                    raise Invalid("as many names as returns")
                local.update(zip(op.outs, refs, strict=True))
            elif isinstance(op, model.Consume):
                for name in op.refs:
                    if not isinstance(local.get(name), Ref):
                        raise Invalid("reads what is not there")
                    call.reads.append(local[name])
                    self._reach(local[name], place, op.way)
            else:
                raise Invalid(f"{type(op).__name__} in a body")
        for ret in call.fn.returns:
            if not all(isinstance(local.get(name), Ref) for name in ret.holds):
                raise Invalid("returns what is not there")
        call.puts = [local[name] for ret in call.fn.returns for name in ret.holds]

    def _guard(self, call: Running, actor: Actor | None) -> None:
        """Refuse calls that could wait for themselves, or for what only a later call ends."""
        used = [other for other in call.uses() if other is not call]
        hung = [other for other in used if other.is_hung]
        if hung and (actor is not None or call.owner != "driver"):
            raise Invalid("an actor would wait for what hangs")
        call.is_hung = bool(hung) or (
            call.fn.trouble is not None and call.fn.trouble.what == "hang"
        )
        if call.is_hung and actor is not None and not call.fn.is_async:
            raise Invalid("a method of threads cannot be cancelled")
        if call.is_hung and call.owner != "driver":
            raise Invalid("nobody can cancel it")
        self._guard_bundle(call)
        # What has to run again needs the CPU of a bundle that such a wait does not give back.
        holds_cpu = any(param.way in HOLDING_CPU for param in call.fn.params)
        # An actor that is not there yet needs that CPU, too.
        waited = {c.actor.place if c.actor else c.place for c in used}
        if holds_cpu and self.names.get(call.place) == "group" and call.place in waited:
            raise Invalid("waits in a bundle for what needs the bundle")
        if actor is None:
            return
        for other in used:
            if other.actor is actor and other.owner != "driver":
                raise Invalid("waits for its own actor")
        # Calls of such actors overtake each other: one that waits in its body may hold the last place.
        resolved = {id(ref) for ref in call.first}
        waits = [ref for ref in call.reads if isinstance(ref, Ref) and id(ref) not in resolved]
        waits += [held for ref in call.first for held in ref.holds]
        own = [other for ref in waits for other in calls_of(ref) if other.actor is actor]
        # What runs again comes behind what was called after it, or in another order (on Ray, too).
        again = actor.cls.options.get("max_restarts") or any(
            other.options.get("retry_exceptions") for other in own
        )
        if own and (actor.cls.kind != "plain" or again):
            raise Invalid("waits for its own actor")
        inner = [c for child in call.children for c in child.uses()]
        if any(c.actor is actor for c in inner):
            raise Invalid("calls its own actor")
        if actor.cls.is_ordered:
            for ref in call.first:
                if not self.is_solid(ref):
                    raise Invalid("an ordered actor must know that the call runs")

    def is_solid(self, ref: Ref) -> bool:
        """Whether no fault of the program can make an error of it."""
        outcome = self.outcome(ref)
        return (
            outcome.key is not None
            and not outcome.errors
            and all(
                c.actor is None and c.fn.trouble is None and c.owner == "driver"
                for c in calls_of(ref)
            )
            and not any(r.owner != "driver" for r in inside(ref))
        )

    def _on_actor(self, call: Running, actor: Actor) -> None:
        trouble = call.fn.trouble
        if actor.is_dead or actor.never_lives:
            # The actor's own set: until its constructor has failed, its group may still be removed.
            call.is_certain_error = actor.ends_with
            return
        actor.n_calls += 1
        call.taints |= actor.taints
        actor.calls.append(call)
        if trouble is not None and trouble.what in ("crash", "leave"):
            self._will_crash(call, actor)
        if actor.crashes:
            for other in actor.calls:
                if not other.is_done and other.fn.options.get("max_task_retries", -1) >= 0:
                    other.taints.add(ACTOR_ERROR)

    def _will_crash(self, call: Running, actor: Actor) -> None:
        actor.crashes = True
        if actor.cls.is_ordered:
            raise Invalid("an ordered actor does not crash")
        if not self._rides_out(actor):
            actor.taints.add(ACTOR_ERROR)
            self._endanger(actor)
        elif attempts_until_value(call) is None:
            self._endanger(actor)
        self._endanger_owned(actor)

    def _rides_out(self, actor: Actor) -> bool:
        """Whether calls survive every crash of the actor."""
        options = actor.cls.options
        return options.get("max_restarts", 0) == -1 and options.get("max_task_retries", 0) == -1

    def _endanger(self, actor: Actor) -> None:
        for call in actor.calls:
            if not call.is_done:
                call.taints |= actor.ends_with

    def _endanger_owned(self, actor: Actor) -> None:
        actor.is_dropped = True

    def _consume(self, op: model.Consume) -> list[list[Any]]:
        refs = [self.ref(name) for name in op.refs]
        if len({id(ref) for ref in refs}) != len(refs) or not refs:
            raise Invalid("each reference once")
        if any(call.is_hung for ref in refs for call in calls_of(ref)):
            raise Invalid("reads what hangs")
        outcomes = [self.outcome(ref) for ref in refs]
        for ref, outcome in zip(refs, outcomes, strict=True):
            self._reach(ref, PLACES[op.place], op.way)
            if not outcome.errors:
                for call in calls_of(ref):
                    call.is_done = True
        return [[outcome.expected() for outcome in outcomes]]

    def _beside(self, op: model.Beside) -> list[list[Any]]:
        return [found for part in op.parts for found in self._consume(part)]

    def _take(self, op: model.Take) -> list[list[Any]]:
        stream = self.get(op.stream, Stream)
        self._new(*op.outs)
        n_items = self.n_items(stream)
        if stream.is_over or stream.n_taken + len(op.outs) > n_items or stream.call.is_hung:
            raise Invalid("the stream has no such item")
        if stream.call.taints or stream.call.is_certain_error:
            raise Invalid("nobody knows how many items there are")
        for name in op.outs:
            self.names[name] = stream.refs[stream.n_taken]
            stream.n_taken += 1
        if op.ends:
            if stream.n_taken != n_items:
                raise Invalid("the stream has more")
            stream.is_over = True
        return []

    def n_items(self, stream: Stream) -> int:
        """How many references the stream gives; the last one may be its error."""
        trouble = stream.call.fn.trouble
        if (
            trouble is not None
            and trouble.what in ("crash", "leave")
            and attempts_until_value(stream.call) is None
        ):
            raise Invalid("items may go with the process that made them")
        for i in range(len(stream.refs)):
            outcome = self._of_call(stream.call, i)
            if outcome.errors:
                if outcome.key is not None:
                    raise Invalid("nobody knows how many items there are")
                return i + 1
        if trouble is not None and attempts_until_value(stream.call) is None:
            return min(trouble.after, len(stream.call.fn.returns)) + 1
        return len(stream.call.fn.returns)

    def _keep(self, op: model.Keep) -> None:
        actor = self._reachable(op.actor)
        if op.slot in actor.slots:
            raise Invalid("the slot is taken")
        refs = [self.ref(name) for name in op.refs]
        if not refs or any(call.is_hung for ref in refs for call in calls_of(ref)):
            raise Invalid("keeps what hangs")
        actor.slots[op.slot] = refs

    def _reachable(self, name: str) -> Actor:
        """An actor whose next call certainly succeeds."""
        actor = self.actor(name)
        if actor.is_dead or actor.taints or actor.never_lives or actor.is_dropped:
            raise Invalid("the actor may be gone")
        if actor.cls.options.get("max_restarts"):
            raise Invalid("the actor may forget")
        if any(call.is_hung for call in actor.calls):
            raise Invalid("the actor may be busy for ever")
        return actor

    def _lend(self, op: model.Lend) -> None:
        actor = self._reachable(op.actor)
        self._new(*op.outs)
        refs = actor.slots.get(op.slot)
        if refs is None or len(refs) != len(op.outs):
            raise Invalid("nothing is kept there")
        self.names.update(zip(op.outs, refs, strict=True))

    def _otherdriver(self, op: model.OtherDriver) -> list[list[Any]]:
        actor = self._reachable(op.actor)
        if "name" not in actor.cls.options or op.slot not in actor.slots:
            raise Invalid("another driver cannot reach it")
        refs = actor.slots[op.slot]
        outcomes = [self.outcome(ref) for ref in refs]
        for ref in refs:
            self._reach(ref, "another driver", op.way)
        return [[outcome.expected() for outcome in outcomes]]

    def _drop(self, op: model.Drop) -> None:
        for name in op.names:
            if name not in self.names or self.names[name] == "group" or name in self.nodes:
                raise Invalid(f"no {name}")
            found = self.names[name]
            if isinstance(found, Actor):
                if any(call.is_hung for call in found.calls):
                    raise Invalid("would wait for what hangs")
                self._endanger_owned(found)
            if isinstance(found, Ref) and any(call.is_hung for call in calls_of(found)):
                raise Invalid("nobody could cancel it")
            if isinstance(found, Stream) and found.call.is_hung:
                raise Invalid("nobody could cancel it")
        for name in op.names:
            del self.names[name]

    def _cancel(self, op: model.Cancel) -> None:
        ref = self.ref(op.ref)
        call = ref.call
        if call is None or (call.owner != "driver"):
            raise Invalid("only calls of the driver are cancelled here")
        if call.actor is not None and (op.force or not call.fn.is_async):
            raise Invalid("methods are cancelled on their loop, without force")
        if op.force and not self.program.crashes:
            raise Invalid("force ends a process")
        if op.force and call.options.get("max_retries", MAX_RETRIES) < 0:
            raise Invalid("would be tried for ever")
        errors = {"TaskCancelledError", *(["WorkerCrashedError"] if op.force else [])}
        if call.fn.trouble is not None and call.fn.trouble.what == "hang":
            call.is_certain_error = errors
        elif call.is_hung:
            raise Invalid("waits for another call that hangs")
        elif any(call in list(other.uses()) for other in self.calls if other is not call):
            raise Invalid("others know its result")
        elif call.options.get("retry_exceptions") or call.fn.trouble is not None:
            raise Invalid("one fault at a time")
        else:
            call.taints |= errors
        for child in children(call):
            child.taints |= errors
        self._unhang()

    def _unhang(self) -> None:
        for call in self.calls:
            trouble = call.fn.trouble
            own = trouble is not None and trouble.what == "hang" and not call.is_certain_error
            others = any(other.is_hung for other in call.uses() if other is not call)
            call.is_hung = own or others

    def _kill(self, op: model.Kill) -> None:
        actor = self.actor(op.actor)
        if not self.program.ends_workers:
            raise Invalid("who works for it ends with it")
        if actor.is_dead or any(call.is_hung for call in actor.calls):
            raise Invalid("the actor cannot be killed now")
        if any(call.fn.is_stream and not call.is_done for call in actor.calls):
            for stream in self.names.values():
                if isinstance(stream, Stream) and stream.call.actor is actor:
                    stream.is_over = True
        if op.no_restart:
            actor.is_dead = True
            self._endanger(actor)
        else:
            if actor.cls.is_ordered:
                raise Invalid("an ordered actor does not begin again")
            self._endanger(actor)
            actor.taints.add(ACTOR_ERROR)
        self._endanger_owned(actor)

    def _makegroup(self, op: model.MakeGroup) -> None:
        self._new(op.out)
        self.names[op.out] = "group"

    def _removegroup(self, op: model.RemoveGroup) -> None:
        if self.names.get(op.group) != "group":
            raise Invalid("no group")
        del self.names[op.group]
        for call in self.calls:
            if call.place == op.group and not call.is_done:
                call.taints |= {"TaskPlacementGroupRemoved", "WorkerCrashedError", ACTOR_ERROR}
                if call.is_hung or call.fn.is_stream:
                    raise Invalid("work of the group may be lost")
        for actor in self.actors.values():
            if actor.place == op.group and not actor.is_dead:
                if any(call.is_hung for call in actor.calls):
                    raise Invalid("the actor cannot be killed now")
                actor.is_dead = True
                # It may not have begun.
                actor.ends_with.add("ActorPlacementGroupRemoved")
                self._endanger(actor)
                self._endanger_owned(actor)
                for stream in self.names.values():
                    if isinstance(stream, Stream) and stream.call.actor is actor:
                        stream.is_over = True

    def _addnode(self, op: model.AddNode) -> None:
        self._new(op.out)
        if self.program.session != "nodes":
            raise Invalid("no cluster")
        self.nodes[op.out] = True
        self.names[op.out] = "node"

    def _removenode(self, op: model.RemoveNode) -> None:
        if not self.nodes.get(op.node):
            raise Invalid("no such node")
        if any(call.is_hung and call.place == op.node for call in self.calls):
            raise Invalid("work of the node may be lost")
        for actor in self.actors.values():
            if actor.place == op.node and not actor.is_dead:
                self._lose_actor(actor)
        self.nodes[op.node] = False
        self.has_dead_node = True

    def _lose_actor(self, actor: Actor) -> None:
        """Its process may end: it is gone then, begins again, or had not begun yet and does so elsewhere."""
        if actor.cls.is_ordered:
            raise Invalid("an ordered actor does not begin again")
        if any(call.is_hung for call in actor.calls):
            raise Invalid("work of the node may be lost")
        for stream in self.names.values():
            if isinstance(stream, Stream) and stream.call.actor is actor:
                stream.is_over = True
        actor.taints.add(ACTOR_ERROR)
        self._endanger(actor)
        self._endanger_owned(actor)

    # Coverage -------------------------------------------------------------------------------------

    def _reach(self, ref: Ref, place: str, consumer: str) -> None:
        self.reached.append((ref.maker, ref.value.size, place, consumer, self.fault_of(ref)))

    def fault_of(self, ref: Ref) -> str:
        """The fault that the value meets, in a word for the table."""
        call = ref.call
        if call is not None and call.fn.trouble is not None:
            what = {"fail": "error", "crash": "crash", "leave": "exit", "hang": "cancelled"}
            retried = "" if attempts_until_value(call) is None else " retried"
            return what[call.fn.trouble.what] + retried
        if call is not None and (call.taints or call.is_certain_error):
            return sorted(call.taints | call.is_certain_error)[0]
        if ref.taints or self._of_owner(ref):
            return "owner may be dead"
        if call is not None and self.outcome(ref).errors:
            return "error of an input"
        if call is not None and "max_calls" in call.options:
            return "max_calls"
        return "spill" if self.program.session == "small" else "none"
