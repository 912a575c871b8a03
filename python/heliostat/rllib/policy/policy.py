"""The specification of a policy, which names a module."""

from __future__ import annotations

from typing import Any

from heliostat.rllib.utils.old_names import refusing

__getattr__ = refusing("rllib.policy.policy", {}, "ray.rllib.core.rl_module.RLModule")


class PolicySpec:
    """The value of ``multi_agent(policies={name: PolicySpec()})``: the name is a module's.

    Args:
        policy_class: None: modules are given by ``rl_module(rl_module_spec=MultiRLModuleSpec(...))``.
        observation_space: None: agents' spaces are taken.
        action_space: None: agents' spaces are taken.
        config: Settings that the module has of its own. Default: none.

    Raises:
        ValueError: A class or a space is given.
    """

    def __init__(
        self,
        policy_class: Any = None,
        observation_space: Any = None,
        action_space: Any = None,
        config: Any = None,
    ) -> None:
        for name, value in (
            ("policy_class", policy_class),
            ("observation_space", observation_space),
            ("action_space", action_space),
        ):
            if value is not None:
                raise ValueError(
                    f"PolicySpec({name}=...) is of RLlib's old API stack: give modules and their spaces by "
                    "rl_module(rl_module_spec=MultiRLModuleSpec(rl_module_specs={...}))."
                )
        self.policy_class = self.observation_space = self.action_space = None
        self.config = config
