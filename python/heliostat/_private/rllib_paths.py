"""Ray's paths to names of ``ray.rllib`` that stand elsewhere here: rows of
:mod:`heliostat._private.paths`.
"""

from __future__ import annotations

_PROGRAMS = "losses, modules and settings of programs"
_ALGORITHMS = "rllib.algorithms"

# Path: who imports from it, and by module the names.
PATHS: dict[str, tuple[str, dict[str, str]]] = {
    "rllib.algorithms.callbacks": (
        "callbacks of earlier releases",
        {"rllib.callbacks.callbacks": "RLlibCallback:DefaultCallbacks"},
    ),
    "rllib.utils.error": ("environments that fail on purpose", {"rllib.env.making": "EnvError"}),
    "rllib.utils.from_config": (_PROGRAMS, {"rllib.algorithms.settings": "NotProvided"}),
}

# The modules' names of earlier releases.
for _name, _kind in (("ppo", "PPO"), ("appo", "APPO")):
    for _suffix, _end in (
        ("torch.{}_torch_rl_module", "TorchRLModule"),
        ("{}_rl_module", "RLModule"),
    ):
        PATHS[f"{_ALGORITHMS}.{_name}.{_suffix.format(_name)}"] = (
            _PROGRAMS,
            {
                f"{_ALGORITHMS}.ppo.default_ppo_torch_rl_module": (
                    f"DefaultPPOTorchRLModule:{_kind}{_end}"
                )
            },
        )

# By algorithm: the learner and the module it brings, with the module that has it here.
for _name, _learner, _modules in (
    ("ppo", "PPO", ("ppo", "PPO")),
    ("dqn", "DQN", ("dqn", "DQN")),
    ("sac", "SAC", ("sac", "SAC")),
    ("impala", "IMPALA", None),
    ("appo", "APPO", ("ppo", "PPO:DefaultAPPO")),
    ("bc", None, ("ppo", "PPO:DefaultBC")),
    ("marwil", "MARWIL", None),
    ("cql", "CQL", None),
):
    _at = f"{_ALGORITHMS}.{_name}"
    PATHS[f"{_at}.torch"] = (_PROGRAMS, {})
    if _learner is not None:
        _here = {f"{_at}.{_name}_torch_learner": f"{_learner}TorchLearner"}
        PATHS[f"{_at}.torch.{_name}_torch_learner"] = (_PROGRAMS, _here)
        PATHS[f"{_at}.{_name}_learner"] = (
            _PROGRAMS,
            {f"{_at}.{_name}_torch_learner": f"{_learner}TorchLearner:{_learner}Learner"},
        )
    if _modules is not None:
        _where, _kind = _modules
        _kind, _, _as = _kind.partition(":")
        _from = f"{_ALGORITHMS}.{_where}.default_{_where}_torch_rl_module"
        _as = _as or f"Default{_kind}"
        _own = f"Default{_kind}TorchRLModule"
        for _suffix, _end in (
            ("torch.default_{}_torch_rl_module", "TorchRLModule"),
            ("default_{}_rl_module", "RLModule"),
        ):
            _path = f"{_at}.{_suffix.format(_name)}"
            _there = f"{_as}{_end}"
            PATHS[_path] = (_PROGRAMS, {_from: _own if _there == _own else f"{_own}:{_there}"})
