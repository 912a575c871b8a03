"""Several agents as one."""

from __future__ import annotations

from typing import Any

from heliostat.rllib.env.multi_agent_env import MultiAgentEnv


class GroupAgentsWrapper(MultiAgentEnv):
    """An environment whose groups act as agents: observations, actions and infos of a group are lists, in
    the order of its agents, and rewards are summed; each one's are in the group's info as
    ``_group_rewards``.

    Args:
        env: The environment.
        groups: By group, its agents. Agents of no group stay as they are.
        obs_space: The group's space of observations, a ``Tuple``; or a dict of them by group.
        act_space: The group's space of actions, likewise.
    """

    def __init__(
        self, env: MultiAgentEnv, groups: dict[str, list[Any]], obs_space: Any, act_space: Any
    ) -> None:
        self.env, self.groups = env, groups
        self.agent_id_to_group = {agent: g for g, agents in groups.items() for agent in agents}
        alone = [a for a in env.possible_agents or env.agents if a not in self.agent_id_to_group]
        self.possible_agents = self.agents = [*groups, *alone]
        super().__init__()
        self.observation_spaces = {a: env.get_observation_space(a) for a in alone}
        self.action_spaces = {a: env.get_action_space(a) for a in alone}
        for group in groups:
            for spaces, space in (
                (self.observation_spaces, obs_space),
                (self.action_spaces, act_space),
            ):
                by_group = getattr(space, "spaces", space)
                spaces[group] = by_group[group] if isinstance(by_group, dict) else space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Begin an episode.

        Args:
            seed: For the environment's random numbers. Default: it goes on with those it has.
            options: For the environment. Default: none.

        Returns:
            Observations and infos by group.
        """
        observations, infos = self.env.reset(seed=seed, options=options)
        seen = self._grouped(observations, tuple)
        return seen, self._infos(infos, {})

    def step(self, action_dict: dict[Any, Any]) -> Any:
        """Act.

        Args:
            action_dict: The actions by group.

        Returns:
            Observations, rewards, terminateds, truncateds and infos by group.
        """
        actions: dict[Any, Any] = {}
        for name, action in action_dict.items():
            if name in self.groups:
                actions.update(zip(self.groups[name], action, strict=True))
            else:
                actions[name] = action
        observations, rewards, terminateds, truncateds, infos = self.env.step(actions)
        by_group = self._grouped(rewards, list)
        sums = {n: sum(r) if n in self.groups else r for n, r in by_group.items()}
        ended = [
            {n: all(v) if n in self.groups else v for n, v in self._grouped(part, list).items()}
            for part in (terminateds, truncateds)
        ]
        return self._grouped(observations, tuple), sums, *ended, self._infos(infos, by_group)

    def _infos(self, infos: dict[Any, Any] | None, rewards: dict[Any, Any]) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for agent, info in (infos or {}).items():
            group = self.agent_id_to_group.get(agent)
            if group is None:
                found[agent] = info
            else:
                found.setdefault(group, {})[agent] = info
        for group in self.groups:
            if group in rewards:
                found.setdefault(group, {})["_group_rewards"] = rewards[group]
        return found

    def _grouped(self, items: dict[Any, Any], kind: Any) -> dict[Any, Any]:
        found = {name: value for name, value in items.items() if name not in self.agent_id_to_group}
        for group, agents in self.groups.items():
            if all(agent in items for agent in agents):
                found[group] = kind(items[agent] for agent in agents)
        return found
