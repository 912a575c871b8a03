"""Names that Ray keeps private and that libraries use all the same: all of them are here.

Nothing of Heliostat imports this package. Each name does what its user needs of it, and no more; a
name that no library was seen to use is not here.

================================================  ==========================================================
name under ``ray.``                               who uses it, and for what
================================================  ==========================================================
``_private.services.get_node_ip_address``         modin: names the node of a partition
``_private.worker.global_worker.mode``            daft, prefect-ray: "am I a driver or a worker?"
``_private.worker.blocking_get_inside_async_…``   daft: silences a warning
``worker.get_dashboard_url``                      daft: a link in its log
``_private.state.actors``                         daft: the node of an actor
``_private.state.available_resources_per_node``   verl: are there GPUs enough?
``_private.state.state.placement_group_table``    verl: the node of a bundle
``_private.ray_option_utils``                     daft: does ``.options()`` take ``label_selector``?
``_private.gcs_utils.cleanup_redis_storage``      KubeRay's operator: the state of a deleted cluster
``_private.internal_api``                         memory reports and collections of many programs
``cloudpickle.cloudpickle``                       pickles that Ray wrote: what makes functions and classes
``_private.runtime_env.constants``                verl: reads the job's runtime environment
``_private.runtime_env.plugin``, ``context``      plugins of RAY_RUNTIME_ENV_PLUGINS: their base class
``_raylet``                                       many: ``from ray._raylet import ObjectRefGenerator``
``experimental.state.api``                        verl: the state of a worker (deprecated path)
``experimental.state.common``, ``exception``      scripts of operators (deprecated paths)
``train._internal.session.get_session``           xgboost_ray, lightgbm_ray: does Tune run this?
``train._internal.utils.get_address_and_port``    worker groups of programs
``train._internal.data_config``, ``syncer``       data configurations and searches of programs
``train._internal.worker_group.WorkerGroup``      training backends of programs: annotations
``data._internal.util``                           lance_ray: checks an import, retries a read
``_private.test_utils``                           tests of many libraries: signals, conditions, drivers
``_private.usage.usage_lib``                      aviary, llmserve: report that they are used
``_private.utils``                                many: hexadecimal ids, the event loop, addresses
``_private.ray_constants``                        many: ports, names of variables, ``env_bool``
``util.rpdb.set_trace``                           debuggers of programs: stops in the caller
``air.util.node``                                 searches and loggers: keeps a call on this node
``_private.thirdparty.pynvml``                    launchers and schedulers: which GPUs there are
``_private.accelerators``                         vllm, deephyper: how many devices, by which variable
``_private.ray_logging``                           rlinf: whether lines that repeat are shown once
``_private.client_mode_hook``                     raydp, exoflow: wrap Ray's calls
``tune.stopper.trial_plateau`` and so on          many: public names in Ray's files (:mod:`.paths` lists all)
================================================  ==========================================================

:data:`PLACES` says which module is imported for a path outside of ``ray._private``. A name that is missing
says so in one line: :func:`missing`.
"""

from __future__ import annotations

# Module below `ray`: module below `heliostat`.
PLACES = {
    "_raylet": "_private.raylet",
    "cloudpickle.cloudpickle": "_private.pickles",
    "cloudpickle.cloudpickle_fast": "_private.pickles",
    "data._internal.util": "_private.data_util",
    "experimental.state": "_private.experimental_state",
    "experimental.state.api": "_private.experimental_state.api",
    "experimental.state.common": "_private.experimental_state.common",
    "experimental.state.exception": "_private.experimental_state.exception",
    "train._internal": "_private.train_internal",
    "train._internal.data_config": "_private.train_internal.data_config",
    "train._internal.session": "_private.train_internal.session",
    "train._internal.syncer": "_private.train_internal.syncer",
    "train._internal.utils": "_private.train_internal.utils",
    "train._internal.worker_group": "_private.train_internal.worker_group",
}

# Modules here that are packages on Ray: paths of `paths.ROWS`, or paths that are refused, stand below them.
PACKAGES = frozenset(
    (
        "autoscaler.sdk",
        "cloudpickle",
        "rllib.env.vector",
        "runtime_env",
        "tune.analysis",
        "tune.experiment",
        "util.accelerators",
        "util.client",
    )
)


def has_row(module: str) -> bool:
    """Whether a module path below ``ray`` is another path to names that stand elsewhere here."""
    from heliostat._private import paths

    return module in paths.ROWS


def is_private(module: str) -> bool:
    """Whether a module path below ``ray`` is one of Ray's own: ``_private.utils``, ``core.generated``."""
    named = any(part.startswith("_") for part in module.split("."))
    return named or any(f"{module}.".startswith(f"{part}.") for part in _ELSEWHERE)


# Parts of Ray that programs import and that cannot be here: what they are of, and what to do.
_ELSEWHERE = {
    "core.generated": "has the messages of Ray's own daemons, which speak gRPC. Heliostat's do not: ask by "
    "ray.util.state, by ray.nodes(), or by the routes of the head",
    "experimental.channel": "has the channels of compiled graphs, which Heliostat does not have: call the "
    "actors' methods, or use ray.util.collective between them",
    **{
        f"rllib.{part}": f"is of RLlib's old API stack, which Heliostat does not have: use {instead}"
        for part, instead in (
            ("evaluation", "ray.rllib.env.single_agent_env_runner"),
            ("models", "ray.rllib.core.rl_module.RLModule"),
            ("policy", "ray.rllib.core.rl_module.RLModule"),
            ("execution", "Algorithm.training_step()"),
            ("utils.exploration", "distributions of an RLModule, or training(epsilon=...) of DQN"),
            ("utils.filter", "ray.rllib.connectors.env_to_module.MeanStdFilter"),
            (
                "utils.schedules.piecewise_schedule",
                "schedules [[timestep, value], ...] as settings",
            ),
            ("env.base_env", "gymnasium.Env"),
            ("env.vector_env", "gymnasium.vector.VectorEnv"),
            ("env.remote_base_env", 'env_runners(gym_env_vectorize_mode="async")'),
            ("env.external_env", "ray.rllib.env.external"),
            ("env.external_multi_agent_env", "ray.rllib.env.external"),
            ("env.policy_client", "ray.rllib.env.external"),
            ("env.policy_server_input", "ray.rllib.env.external"),
            ("offline.json_reader", "offline_data(input_=..., input_read_method='read_json')"),
            ("offline.json_writer", "offline_data(output=..., output_write_method='write_json')"),
        )
    },
    **{
        f"rllib.{part}": "has catalogs, which choose networks by settings. Modules make theirs in "
        "RLModule.setup() here: write it, or set DefaultModelConfig"
        for part in (
            "core.models",
            *(f"algorithms.{name}.{name}_catalog" for name in ("bc", "dqn", "ppo", "sac")),
        )
    },
    "rllib.offline.offline_prelearner": "makes batches of recorded rows, which Heliostat does by itself: "
    "name the columns by offline_data(input_read_schema=...), and change batches by "
    "learners(learner_connector=...)",
    "rllib.env.vector.vector_multi_agent_env": "has a vector of environments of several agents, which "
    "Heliostat steps one by one: runner.env.unwrapped.envs has them",
    "rllib.examples": "has Ray's examples, which are not part of Heliostat: copy the file that you use",
    **{
        f"rllib.algorithms.{name}": "is an algorithm that Heliostat does not have: there are PPO, DQN, SAC, "
        "IMPALA, APPO, BC, MARWIL and CQL"
        for name in ("dreamerv3", "iql", "tqc")
    },
}


def missing(name: str) -> str:
    """Return the sentence about a private name that is not here. ``name`` begins with ``ray.``."""
    for part, reason in _ELSEWHERE.items():
        if f"{name}.".startswith(f"ray.{part}."):
            return f"ray.{part} {reason}"
    return (
        f"{name} is private to Ray and Heliostat does not have it: ask for it in an issue of Heliostat, "
        "naming the library that uses it"
    )


def __getattr__(name: str) -> object:
    import importlib
    import importlib.util

    if not name.startswith("__") and importlib.util.find_spec(f"{__name__}.{name}") is not None:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(missing(f"ray._private.{name}"))
