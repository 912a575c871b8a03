"""A runner whose environments are elsewhere: clients act by themselves and send episodes."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from heliostat import cloudpickle
from heliostat.rllib.core import DEFAULT_MODULE_ID
from heliostat.rllib.env.connected_env_runner import EpisodeRollout
from heliostat.rllib.env.external.rllink import RLlink, get_rllink_message, send_rllink_message
from heliostat.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from heliostat.rllib.env.single_agent_episode import SingleAgentEpisode

__all__ = ["EnvRunnerServerForExternalInference"]

_log = logging.getLogger("ray.rllib")

# Seconds that `stop` waits for a thread whose socket is closed.
_JOIN_S = 30.0


class EnvRunnerServerForExternalInference(SingleAgentEnvRunner):
    """Listens for clients of RLlink, gives them the module's weights, and takes the episodes that they send.

    ``environment(observation_space=..., action_space=..., env_config={"port": 5555})`` sets the spaces
    and the first port; a runner listens on that port plus its number (0 in the algorithm's process, else
    from 1 on), on ``env_config["host"]``, by default ``"localhost"``.

    Args:
        config: The algorithm's settings.
        **kwargs: Those of ``EnvRunner``.

    Raises:
        ValueError: The settings lack a space.
        OSError: The port is taken.

    Examples:
        >>> import gymnasium as gym
        >>> from ray.rllib.algorithms.ppo import PPOConfig
        >>> from ray.rllib.env.external.env_runner_server_for_external_inference import (
        ...     EnvRunnerServerForExternalInference,
        ... )
        >>> config = (
        ...     PPOConfig()
        ...     .environment(
        ...         observation_space=gym.spaces.Box(-1.0, 1.0, (4,)),
        ...         action_space=gym.spaces.Discrete(2),
        ...         env_config={"port": 5556},
        ...     )
        ...     .env_runners(env_runner_cls=EnvRunnerServerForExternalInference)
        ... )

        ``config.build_algo()`` listens, and ``train()`` learns from the episodes that clients send.
    """

    def __init__(self, *, config: Any, **kwargs: Any) -> None:
        for name in ("observation_space", "action_space"):
            if getattr(config, name) is None:
                raise ValueError(
                    f"An external environment's {name} is not known here: set environment({name}=...)."
                )
        self._changed = threading.Condition()
        self._came: list[SingleAgentEpisode] = []
        # Calls of sample: a client that asks for weights waits for the one after that which took its steps.
        self._calls = 0
        self._waiting = False
        self._running: dict[str, tuple[float, int, float]] = {}
        self._clients: set[Any] = set()
        self._server: Any = None
        self._threads: list[threading.Thread] = []
        super().__init__(config=config, **kwargs)
        self._listen()

    def make_env(self) -> None:
        """Make no environment: clients have them."""
        config = self.config
        self.num_envs = 1
        self._observation_space, self._action_space = config.observation_space, config.action_space

    def make_module(self) -> None:
        """Make the module whose weights clients get."""
        spec = self.config.get_multi_rl_module_spec(spaces=self.get_spaces(), inference_only=True)
        self.module = spec.rl_module_specs[DEFAULT_MODULE_ID].build()

    def assert_healthy(self) -> None:
        """Fail unless the socket listens."""
        assert self._server is not None, "The runner does not listen: it was stopped."

    def sample(self, **how: Any) -> list[SingleAgentEpisode]:
        """Wait for episodes of clients, and return them.

        Args:
            **how: Has no effect: clients decide how many steps they send.

        Returns:
            The episodes, or parts of them; none where nothing came in time.
        """
        return self.sample_rollout(**how).episodes

    def sample_rollout(self, *arguments: Any, **how: Any) -> EpisodeRollout:  # type: ignore[override] # episodes, and nothing is asked for
        """Wait for episodes of clients; none came where half of ``sample_timeout_s`` passed.

        Args:
            *arguments: Have no effect.
            **how: Has no effect.

        Returns:
            The episodes that came.
        """
        began, wait = time.perf_counter(), self.config.sample_timeout_s / 2
        with self._changed:
            self._calls, self._waiting = self._calls + 1, True
            self._changed.notify_all()
            came = self._changed.wait_for(lambda: self._came, timeout=wait)
            self._waiting = False
            if not came:
                _log.warning(
                    "No episodes came to %s:%s within %s s (%s clients are connected).",
                    *(self.host, self.port, wait, len(self._clients)),
                )
            episodes, self._came = self._came, []
        for episode in episodes:
            self._count(episode)
        rollout = EpisodeRollout(episodes, self.weights_seq_no)
        self._log_sample(rollout.env_steps, began)
        if episodes and self._callbacks.wanted("on_sample_end"):
            self._callbacks.call(
                "on_sample_end", env_runner=self, metrics_logger=self.metrics, samples=episodes
            )
        return rollout

    def stop(self) -> None:
        """Close the sockets: clients get a ``ConnectionError``."""
        with self._changed:
            server, self._server = self._server, None
            clients, self._clients = self._clients, set()
            self._changed.notify_all()
        for held in [server, *clients]:
            if held is not None:
                with contextlib.suppress(OSError):
                    held.shutdown(socket.SHUT_RDWR)
                held.close()
        # A thread that is within torch as the interpreter ends would end the process by a signal.
        for thread in self._threads:
            thread.join(_JOIN_S)

    # --- how ---

    def _count(self, episode: SingleAgentEpisode) -> None:
        value, length, began = self._running.pop(episode.id_, (0.0, 0, time.perf_counter()))
        value, length = value + episode.get_return(), length + len(episode)
        if episode.is_done:
            self._log_ends([value], [length], [time.perf_counter() - began])
        else:
            self._running[episode.id_] = (value, length, began)

    def _listen(self) -> None:
        given = self.config.env_config
        self.host = str(given.get("host", "localhost"))
        self.port = int(given.get("port", 5555)) + self.worker_index
        try:
            self._server = socket.create_server((self.host, self.port))
        except OSError as error:
            raise OSError(
                f"Port {self.port} of {self.host} cannot be listened on ({error}): set "
                "environment(env_config={'port': ...}) to a free one; runner n takes that port plus n."
            ) from error
        self._start(self._accept, self._server)

    def _start(self, target: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads = [one for one in self._threads if one.is_alive()] + [thread]
        thread.start()

    def _accept(self, server: Any) -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:  # it was closed
                return
            with self._changed:
                if self._server is None:
                    client.close()
                    return
                self._clients.add(client)
                self._start(self._serve, client)

    def _serve(self, client: Any) -> None:
        try:
            while True:
                self._answer(client, *get_rllink_message(client))
        except (ConnectionError, OSError) as error:
            with self._changed:
                known = client in self._clients
            if known:
                _log.info("A client of RLlink left: %s", error)
        except Exception as error:
            _log.warning("A client of RLlink sent what cannot be used, and is left: %s", error)
        finally:
            with self._changed:
                self._clients.discard(client)
            client.close()

    def _answer(self, client: Any, kind: RLlink, message: dict[str, Any]) -> None:
        if kind is RLlink.PING:
            send_rllink_message(client, {"type": RLlink.PONG.name})
        elif kind is RLlink.GET_CONFIG:
            config = cloudpickle.dumps(self.config)
            send_rllink_message(client, {"type": RLlink.SET_CONFIG.name, "config": config})
        elif kind is RLlink.GET_STATE:
            self._send_state(client)
        elif kind in (RLlink.EPISODES, RLlink.EPISODES_AND_GET_STATE):
            episodes = [self._episode_of(state) for state in message["episodes"]]
            with self._changed:
                taken_by = self._calls + (0 if self._waiting else 1)
                self._came += [episode for episode in episodes if len(episode)]
                self._changed.notify_all()
                if kind is RLlink.EPISODES_AND_GET_STATE:  # after they were learned from
                    self._changed.wait_for(lambda: self._server is None or self._calls > taken_by)
                    if self._server is None:
                        raise ConnectionError("the runner was stopped")
            if kind is RLlink.EPISODES_AND_GET_STATE:
                self._send_state(client)
        else:
            raise ValueError(f"{kind} is what a server sends")

    def _send_state(self, client: Any) -> None:
        with self._changed:
            state = self.get_state()
        send_rllink_message(client, {"type": RLlink.SET_STATE.name, "state": state})

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over weights."""
        with self._changed:
            super().set_state(state)

    def _episode_of(self, state: dict[str, Any]) -> SingleAgentEpisode:
        episode = SingleAgentEpisode.from_state(state)
        episode.observation_space, episode.action_space = (
            self._observation_space,
            self._action_space,
        )
        for name, space in (
            ("observations", self._observation_space),
            ("actions", self._action_space),
        ):
            values = getattr(episode, name)
            if isinstance(values, list) and hasattr(space, "dtype") and space.dtype is not None:
                # Lists, of clients that have no arrays.
                setattr(episode, name, [np.asarray(value, space.dtype) for value in values])
        return episode.to_numpy()
