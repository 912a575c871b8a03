"""``import ray`` and ``import heliostat`` are one thing under two names."""

from __future__ import annotations

import importlib
import pickle
import sys
from types import ModuleType
from typing import Any

import pytest
import ray

from tests.helpers.harness import IS_HELIOSTAT

if not IS_HELIOSTAT:
    pytest.skip("the alias is Heliostat's own", allow_module_level=True)

import heliostat

MODULES = ["", "exceptions", "util", "actor", "cluster_utils", "cloudpickle", "remote_function"]

NAMES = [
    "init",
    "shutdown",
    "is_initialized",
    "remote",
    "method",
    "get",
    "put",
    "wait",
    "kill",
    "cancel",
    "get_actor",
    "get_gpu_ids",
    "get_runtime_context",
    "nodes",
    "cluster_resources",
    "available_resources",
    "timeline",
    "ObjectRef",
    "ObjectID",
    "ObjectRefGenerator",
    "TaskID",
    "ActorID",
    "JobID",
    "NodeID",
    "WorkerID",
    "PlacementGroupID",
    "UniqueID",
]


@pytest.mark.contract("F0.01")
@pytest.mark.parametrize("name", NAMES)
def test_names_are_identical(name: str) -> None:
    assert getattr(ray, name) is getattr(heliostat, name)


@pytest.mark.contract("F0.01", "F0.15")
@pytest.mark.parametrize("module", MODULES)
def test_modules_agree(module: str) -> None:
    """Everything public in a module of the one is the same thing in the other."""
    suffix = f".{module}" if module else ""
    ours = importlib.import_module(f"heliostat{suffix}")
    theirs = importlib.import_module(f"ray{suffix}")
    for name in getattr(ours, "__all__", [n for n in vars(ours) if not n.startswith("_")]):
        one, other = getattr(ours, name), getattr(theirs, name)
        if isinstance(one, ModuleType):
            assert one.__name__.removeprefix("heliostat") == other.__name__.removeprefix(
                "heliostat"
            ).removeprefix("ray")
        else:
            assert one is other, name


@pytest.mark.contract("F0.15")
def test_exceptions_are_the_same_classes() -> None:
    from ray.exceptions import RayTaskError as ThroughAlias

    assert ThroughAlias is heliostat.exceptions.RayTaskError
    assert ray.exceptions.GetTimeoutError is heliostat.exceptions.GetTimeoutError


@pytest.mark.contract("F0.01", "F2.25", "F2.26")
def test_from_imports() -> None:
    from heliostat.util import ActorPool as Ours
    from heliostat.util.queue import Queue as OurQueue
    from ray.util import ActorPool
    from ray.util.queue import Queue

    assert ActorPool is Ours
    assert Queue is OurQueue
    assert ray.util.get_node_ip_address is heliostat.util.get_node_ip_address


@pytest.mark.contract("F0.01")
def test_what_does_not_exist_is_an_ordinary_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = ray.no_such_name
    with pytest.raises(ImportError):
        importlib.import_module("ray.no_such_module")
    with pytest.raises(ImportError):
        from ray import no_such_name  # noqa: F401


@pytest.mark.contract("F0.14", "F2.24", "F3.11")
def test_pickles_of_one_load_with_the_other(ray_start: Any, run_driver: Any, tmp_path: Any) -> None:
    """A value pickled where only the one name was imported loads where only the other was."""
    path = tmp_path / "ids.pickle"
    for write, read in (("ray", "heliostat"), ("heliostat", "ray")):
        run_driver(
            f"""
            import pickle, sys
            import {write} as api
            value = [api.JobID(b"abcd"), api.exceptions.GetTimeoutError("late"), api.ActorID]
            open({str(path)!r}, "wb").write(pickle.dumps(value))
            """
        ).check()
        done = run_driver(
            f"""
            import pickle, sys
            import {read} as api
            job, error, cls = pickle.load(open({str(path)!r}, "rb"))
            assert isinstance(job, api.JobID) and job.binary() == b"abcd"
            assert isinstance(error, api.exceptions.GetTimeoutError)
            assert cls is api.ActorID
            print("loaded=yes")
            """
        ).check()
        assert done.value("loaded") == "yes"
    ref = heliostat.put(1)
    assert isinstance(pickle.loads(ray.cloudpickle.dumps(ref)), ray.ObjectRef)


@pytest.mark.contract("F0.01", "F1.01", "F2.01")
def test_one_session_under_both_names(ray_start: Any) -> None:
    @heliostat.remote
    def through_ray() -> bool:
        import heliostat as one
        import ray as other

        assert one.get_runtime_context().get_job_id() == other.get_runtime_context().get_job_id()
        return other.get(other.put(True))

    @ray.remote
    class Actor:
        def ping(self) -> str:
            return "pong"

    assert heliostat.is_initialized()
    assert ray.get(through_ray.remote()) is True
    assert heliostat.get(Actor.remote().ping.remote()) == "pong"
    assert heliostat.get(ray.put(5)) == ray.get(heliostat.put(5))


@pytest.mark.contract("F0.01")
def test_the_alias_loads_nothing_by_itself(run_driver: Any) -> None:
    done = run_driver(
        """
        import sys
        import heliostat
        print(f"alias={any(name == 'ray' or name.startswith('ray.') for name in sys.modules)}")
        """
    ).check()
    assert done.value("alias") == "False"
    assert "ray" in sys.modules
