"""The settings of the modules that algorithms bring."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class DefaultModelConfig:
    """The settings of a default module: an encoder, a recurrent layer, heads.

    Attributes:
        fcnet_hiddens: Units of the encoder's layers.
        fcnet_activation: ``"tanh"``, ``"relu"``, ``"silu"`` (``"swish"``), ``"elu"``, ``"gelu"``,
            ``"linear"``.
        fcnet_use_layernorm: Whether a layer norm follows each layer.
        conv_filters: Layers of image observations: lists ``[channels, kernel, stride]``. Default for boxes of
            three dimensions: three or four layers by the image's size.
        head_fcnet_hiddens: Units of layers between the encoder and the outputs.
        free_log_std: Whether the log of standard deviations is a parameter of its own, not an output.
        log_std_clip_param: Its largest magnitude.
        vf_share_layers: Whether values come from the encoder of actions.
        use_lstm: Whether an LSTM follows the encoder.
        max_seq_len: Steps through which it is trained at a time.
        lstm_cell_size: Units of the LSTM.
    """

    fcnet_hiddens: list[int] = field(default_factory=lambda: [256, 256])
    fcnet_activation: str = "tanh"
    fcnet_kernel_initializer: str | Callable[..., object] | None = None
    fcnet_kernel_initializer_kwargs: dict[str, object] | None = None
    fcnet_bias_initializer: str | Callable[..., object] | None = None
    fcnet_bias_initializer_kwargs: dict[str, object] | None = None
    fcnet_use_layernorm: bool = False
    conv_filters: list[list[object]] | None = None
    conv_activation: str = "relu"
    conv_kernel_initializer: str | Callable[..., object] | None = None
    conv_kernel_initializer_kwargs: dict[str, object] | None = None
    conv_bias_initializer: str | Callable[..., object] | None = None
    conv_bias_initializer_kwargs: dict[str, object] | None = None
    head_fcnet_hiddens: list[int] = field(default_factory=list)
    head_fcnet_activation: str = "relu"
    head_fcnet_kernel_initializer: str | Callable[..., object] | None = None
    head_fcnet_kernel_initializer_kwargs: dict[str, object] | None = None
    head_fcnet_bias_initializer: str | Callable[..., object] | None = None
    head_fcnet_bias_initializer_kwargs: dict[str, object] | None = None
    head_fcnet_use_layernorm: bool = False
    free_log_std: bool = False
    log_std_clip_param: float = 20.0
    vf_share_layers: bool = True
    use_lstm: bool = False
    max_seq_len: int = 20
    lstm_cell_size: int = 256
    lstm_use_prev_action: bool = False
    lstm_use_prev_reward: bool = False
    lstm_kernel_initializer: str | Callable[..., object] | None = None
    lstm_kernel_initializer_kwargs: dict[str, object] | None = None
    lstm_bias_initializer: str | Callable[..., object] | None = None
    lstm_bias_initializer_kwargs: dict[str, object] | None = None
    fusionnet_hiddens: list[int] = field(default_factory=lambda: [256, 256])
    fusionnet_activation: str = "tanh"
    fusionnet_kernel_initializer: str | Callable[..., object] | None = None
    fusionnet_kernel_initializer_kwargs: dict[str, object] | None = None
    fusionnet_bias_initializer: str | Callable[..., object] | None = None
    fusionnet_bias_initializer_kwargs: dict[str, object] | None = None
