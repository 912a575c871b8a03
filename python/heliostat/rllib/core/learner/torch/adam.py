"""Adam without what torch loads and records around it."""

from __future__ import annotations

from typing import Any

from heliostat.core.platform.extras import required

torch = required("torch", "ray.rllib", "rllib")
_Optimizer = torch.optim.Optimizer


def _plain(method: Any) -> Any:
    """A method without torch's wrapper that keeps its compiler out, for which it loads the compiler."""
    return getattr(method, "__wrapped__", method)


class Adam(torch.optim.Adam):  # type: ignore[name-defined] # found at run time
    """torch's Adam, with the same state, for parameters of floats that are all on one device.

    The first optimizer of a process makes torch load its compiler, 900 modules, which takes longer than a
    runner and a learner together; none of it is used by a step of one call for all parameters.

    Args:
        params: The parameters.
        **how: As of ``torch.optim.Adam``: ``lr``, ``betas``, ``eps``, ``weight_decay``.
    """

    def __init__(self, params: list[Any], **how: Any) -> None:
        super().__init__(params, fused=True, **how)

    add_param_group = _plain(_Optimizer.add_param_group)
    state_dict = _plain(_Optimizer.state_dict)
    load_state_dict = _plain(_Optimizer.load_state_dict)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget all gradients.

        Args:
            set_to_none: Has no effect: there is none afterwards.
        """
        for group in self.param_groups:
            for param in group["params"]:
                param.grad = None

    def step(self, closure: Any = None) -> Any:
        """Move all parameters that have a gradient.

        Args:
            closure: Computes the loss anew. Default: none.

        Returns:
            What the closure returned.
        """
        loss = None if closure is None else closure()
        with torch.no_grad():
            for group in self.param_groups:
                self._step(group)
        return loss

    def _step(self, group: dict[str, Any]) -> None:
        params = [param for param in group["params"] if param.grad is not None]
        if not params:
            return
        for param in params:
            state = self.state[param]
            if not state:
                state["step"] = torch.zeros((), device=param.device)
                state["exp_avg"] = torch.zeros_like(param)
                state["exp_avg_sq"] = torch.zeros_like(param)
        states = [self.state[param] for param in params]
        steps = [state["step"] for state in states]
        torch._foreach_add_(steps, 1)
        beta1, beta2 = group["betas"]
        torch._fused_adam_(
            params,
            [param.grad for param in params],
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [],
            steps,
            amsgrad=False,
            lr=group["lr"],
            beta1=beta1,
            beta2=beta2,
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            maximize=False,
            grad_scale=None,
            found_inf=None,
        )
