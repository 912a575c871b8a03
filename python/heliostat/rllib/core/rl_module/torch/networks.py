"""Layers of the default modules: what turns nests of observations into features."""

from __future__ import annotations

from typing import Any

from heliostat.core.platform.extras import required
from heliostat.rllib.core.columns import Columns
from heliostat.rllib.core.rl_module.default_model_config import DefaultModelConfig
from heliostat.rllib.utils.nest import leaves
from heliostat.rllib.utils.spaces import check, encoded_size, parts

torch = required("torch", "ray.rllib", "rllib")
nn = torch.nn

_ACTIVATIONS = {
    "tanh": nn.Tanh,
    "relu": nn.ReLU,
    "silu": nn.SiLU,
    "swish": nn.SiLU,
    "elu": nn.ELU,
    "gelu": nn.GELU,
    "linear": nn.Identity,
    None: nn.Identity,
}
# Filters of images that the settings say nothing of: [channels, kernel, stride], by the least side.
_FILTERS = (
    (96, [[32, 8, 4], [64, 4, 2], [64, 4, 2], [64, 3, 2]]),
    (64, [[32, 8, 4], [64, 4, 2], [64, 3, 2]]),
    (42, [[16, 4, 2], [32, 4, 2], [64, 4, 2]]),
    (10, [[16, 4, 2], [32, 3, 2]]),
    (3, [[16, 2, 1], [32, 2, 1]]),
)


_OWN = "write an RLModule (RLModuleSpec(module_class=...))"
# Settings of models of the old API stack: what takes their place.
_OLD = {
    "use_attention": f"{_OWN} with attention whose state has what was seen",
    "custom_model": _OWN,
    "custom_model_config": "RLModuleSpec(module_class=..., model_config=...)",
    "custom_action_dist": "set action_dist_cls in your RLModule's setup()",
    "post_fcnet_hiddens": "set head_fcnet_hiddens",
    "post_fcnet_activation": "set head_fcnet_activation",
    "lstm_use_prev_action_reward": "add an env_to_module_connector PrevActionsPrevRewards",
    "framestack": "add FrameStacking connectors",
    "dim": "resize images in the environment, as wrap_atari_for_new_api_stack does",
    "grayscale": "wrap the environment, as wrap_atari_for_new_api_stack does",
    "zero_mean": "scale images in the environment",
    "no_final_linear": _OWN,
    **{f"attention_{n}": f"{_OWN} with attention" for n in ("num_heads", "head_dim", "dim")},
}


def settings(model_config: dict[str, Any]) -> DefaultModelConfig:
    """The settings of a default module.

    Raises:
        ValueError: There is no such setting; the message names the nearest.
    """
    import dataclasses

    from heliostat.core.platform.spelling import did_you_mean

    known = {field.name for field in dataclasses.fields(DefaultModelConfig)}
    for name in model_config:
        if name in _OLD:
            raise ValueError(
                f"model_config has {name!r}, a setting of models of RLlib's old API stack: {_OLD[name]}."
            )
        if name not in known:
            raise ValueError(
                f"model_config has {name!r}, which is not a setting of the default modules."
                f"{did_you_mean(name, known)} Settings of a module of your own go with "
                "RLModuleSpec(module_class=..., model_config=...)."
            )
    found = DefaultModelConfig(**model_config)
    for name in ("lstm_use_prev_action", "lstm_use_prev_reward"):
        if getattr(found, name):
            raise ValueError(
                f"{name}=True is not built: add the column by an env_to_module_connector."
            )
    return found


def activation(name: Any) -> Any:
    """The layer of an activation's name.

    Raises:
        ValueError: There is none; the message lists them.
    """
    key = name.lower() if isinstance(name, str) else name
    if key not in _ACTIVATIONS:
        known = ", ".join(repr(k) for k in _ACTIVATIONS if k)
        raise ValueError(f"There is no activation {name!r}: use one of {known}.")
    return _ACTIVATIONS[key]()


def mlp(
    size: int,
    hidden: list[int],
    act: Any,
    out: int | None = None,
    layernorm: bool = False,
    initializers: tuple[Any, Any, Any, Any] = (None, None, None, None),
) -> Any:
    """Linear layers with activations between them, and an output layer where ``out`` says so."""
    layers: list[Any] = []
    for units in hidden:
        layers.append(_initialized(nn.Linear(size, units), initializers))
        if layernorm:
            layers.append(nn.LayerNorm(units))
        layers.append(activation(act))
        size = units
    if out is not None:
        layers.append(nn.Linear(size, out))
    return nn.Sequential(*layers)


def _initialized(layer: Any, initializers: tuple[Any, Any, Any, Any]) -> Any:
    kernel, kernel_kwargs, bias, bias_kwargs = initializers
    for given, kwargs, weight in (
        (kernel, kernel_kwargs, layer.weight),
        (bias, bias_kwargs, layer.bias),
    ):
        if given is not None:
            function = getattr(nn.init, given) if isinstance(given, str) else given
            function(weight, **(kwargs or {}))
    return layer


class Inputs(nn.Module):  # type: ignore[name-defined] # found at run time
    """Turns a nest of observations into one tensor of shape ``(batch, size)``.

    Discrete parts become one-hot; boxes of three dimensions go through convolutions.
    """

    def __init__(self, space: Any, config: DefaultModelConfig) -> None:
        super().__init__()
        from gymnasium import spaces

        check(space, "observation")
        self.spaces = [leaf for _, leaf in leaves(parts(space))]
        self.convolutions = nn.ModuleList()
        self.image_at: dict[int, int] = {}
        self.size = 0
        for number, leaf in enumerate(self.spaces):
            filters = config.conv_filters or _filters(leaf)
            if isinstance(leaf, spaces.Box) and len(leaf.shape) == 3 and filters:
                self.image_at[number] = len(self.convolutions)
                network, size = _convolutions(leaf.shape, filters, config.conv_activation)
                self.convolutions.append(network)
                self.size += size
            else:
                self.size += encoded_size(leaf)

    def forward(self, observations: Any) -> Any:
        """Return the features."""
        found = [leaf for _, leaf in leaves(observations)]
        encoded = [self._encoded(n, leaf) for n, leaf in enumerate(found)]
        return encoded[0] if len(encoded) == 1 else torch.cat(encoded, dim=-1)

    def _encoded(self, number: int, values: Any) -> Any:
        from gymnasium import spaces

        space = self.spaces[number]
        if isinstance(space, spaces.Discrete):
            index = values.long() - int(space.start)
            return nn.functional.one_hot(index, int(space.n)).float()
        if isinstance(space, spaces.MultiDiscrete):
            flat = values.long().reshape(values.shape[0], -1)
            sizes = space.nvec.reshape(-1)
            hot = [nn.functional.one_hot(flat[:, i], int(n)) for i, n in enumerate(sizes)]
            return torch.cat(hot, dim=-1).float()
        if number in self.image_at:
            image = values.float()
            if space.dtype.kind == "u":
                image = image / 255.0
            return self.convolutions[self.image_at[number]](image.permute(0, 3, 1, 2)).flatten(1)
        return values.float().reshape(values.shape[0], -1)


def _filters(space: Any) -> Any:
    side = min(space.shape[:2]) if len(getattr(space, "shape", ()) or ()) == 3 else 0
    return next((filters for least, filters in _FILTERS if side >= least), None)


def _convolutions(shape: Any, filters: Any, act: str) -> tuple[Any, int]:
    layers: list[Any] = []
    channels = int(shape[2])
    for out, kernel, stride in filters:
        padding = (
            (kernel - 1) // 2 if isinstance(kernel, int) else tuple((k - 1) // 2 for k in kernel)
        )
        layers += [nn.Conv2d(channels, out, kernel, stride, padding), activation(act)]
        channels = out
    network = nn.Sequential(*layers)
    with torch.no_grad():
        size = network(torch.zeros(1, int(shape[2]), int(shape[0]), int(shape[1]))).numel()
    return network, int(size)


class Encoder(nn.Module):  # type: ignore[name-defined] # found at run time
    """Features of observations: layers, and an LSTM after them where the settings say so.

    Attributes:
        out: How many features there are.
        stateful: Whether there is an LSTM.
    """

    def __init__(self, space: Any, config: DefaultModelConfig) -> None:
        super().__init__()
        self.inputs = Inputs(space, config)
        self.layers = mlp(
            self.inputs.size,
            config.fcnet_hiddens,
            config.fcnet_activation,
            layernorm=config.fcnet_use_layernorm,
            initializers=(
                config.fcnet_kernel_initializer,
                config.fcnet_kernel_initializer_kwargs,
                config.fcnet_bias_initializer,
                config.fcnet_bias_initializer_kwargs,
            ),
        )
        self.out = config.fcnet_hiddens[-1] if config.fcnet_hiddens else self.inputs.size
        self.stateful = config.use_lstm
        if self.stateful:
            self.cell = nn.LSTM(self.out, config.lstm_cell_size, batch_first=True)
            self.out = config.lstm_cell_size

    def initial_state(self) -> Any:
        """The state of one episode's start."""
        if not self.stateful:
            return {}
        return {"h": torch.zeros(self.cell.hidden_size), "c": torch.zeros(self.cell.hidden_size)}

    def forward(self, batch: dict[str, Any]) -> tuple[Any, Any]:
        """Return features and the next state.

        Observations are of shape ``(batch, ...)``; of an encoder with a state ``(batch, time, ...)``, with
        the state before the first step in ``Columns.STATE_IN``.
        """
        observations = batch[Columns.OBS]
        if not self.stateful:
            return self.layers(self.inputs(observations)), None
        from heliostat.rllib.utils.nest import first, mapped

        rows, steps = first(observations).shape[:2]
        flat = mapped(lambda leaf: leaf.reshape(rows * steps, *leaf.shape[2:]), observations)
        features = self.layers(self.inputs(flat)).reshape(rows, steps, -1)
        state = batch[Columns.STATE_IN]
        out, (h, c) = self.cell(
            features, (state["h"].unsqueeze(0).contiguous(), state["c"].unsqueeze(0).contiguous())
        )
        return out, {"h": h.squeeze(0), "c": c.squeeze(0)}
