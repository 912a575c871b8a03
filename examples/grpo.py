"""GRPO: a tiny transformer learns to add by the rewards of its own answers.

The pattern of language-model reinforcement learning: rollout actors write several answers to each question,
a reward says how good each is, and a group of learners makes those likelier that are better than the others
of their question. Weights go to the rollout actors as one object of the store.

    python examples/grpo.py
    python examples/grpo.py --steps 40 --rollouts 1 --learners 1
"""

from __future__ import annotations

import argparse
import socket
import time
from typing import Any

import heliostat as ray
import torch
import torch.distributed as dist
from torch import nn

# Tokens: the digits, `+` and `=`. A question is `a+b=`, its answer one digit.
PLUS, EQUALS, VOCABULARY = 10, 11, 12
QUESTION, ANSWER = 4, 1
LARGEST = 4
# What a choice that is open is worth: answers that are all the same teach nothing.
ENTROPY = 0.02


class Transformer(nn.Module):
    """A decoder of two layers."""

    def __init__(self, width: int = 48, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.places = nn.Embedding(QUESTION + ANSWER, width)
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout=0.0, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        length = tokens.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        features = self.tokens(tokens) + self.places(torch.arange(length))
        return self.head(self.layers(features, mask=mask, is_causal=True))


def answers_logp(model: Transformer, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """How likely the model writes each token of the answers, as logs, and the entropy of its choices."""
    logp = model(tokens[:, :-1])[:, QUESTION - 1 :].log_softmax(-1)
    chosen = tokens[:, QUESTION:].unsqueeze(-1)
    return logp.gather(-1, chosen).squeeze(-1), -(logp.exp() * logp).sum(-1)


def rewards_of(tokens: torch.Tensor) -> torch.Tensor:
    """A point for the right answer."""
    return (tokens[:, QUESTION] == tokens[:, 0] + tokens[:, 2]).float()


@ray.remote
class Rollouts:
    """Writes answers with the weights that it is sent."""

    def __init__(self, seed: int) -> None:
        torch.set_num_threads(1)
        self.model = Transformer()
        self.random = torch.Generator().manual_seed(seed)

    def write(self, weights: Any, questions: int, answers: int) -> dict[str, torch.Tensor]:
        self.model.load_state_dict(weights)
        a, b = torch.randint(0, LARGEST + 1, (2, questions), generator=self.random)
        asked = torch.stack([a, torch.full_like(a, PLUS), b, torch.full_like(a, EQUALS)], dim=1)
        tokens = asked.repeat_interleave(answers, dim=0)
        with torch.no_grad():
            for _ in range(ANSWER):
                chances = self.model(tokens)[:, -1].softmax(-1)
                token = torch.multinomial(chances, 1, generator=self.random)
                tokens = torch.cat([tokens, token], dim=1)
            logp, _ = answers_logp(self.model, tokens)
        # The heart of GRPO: how good an answer is beside the others to its question.
        rewards = rewards_of(tokens)
        groups = rewards.reshape(questions, answers)
        spread = groups.std(dim=1, keepdim=True) + 1e-4
        advantages = ((groups - groups.mean(dim=1, keepdim=True)) / spread).reshape(-1)
        return {"tokens": tokens, "logp": logp, "rewards": rewards, "advantages": advantages}


@ray.remote
class Learner:
    """One rank of the group that trains: gradients are averaged over all of them."""

    def __init__(self, rank: int, size: int, lr: float) -> None:
        torch.set_num_threads(1)
        torch.manual_seed(0)  # the same first weights in all
        self.rank, self.size = rank, size
        self.model = Transformer()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lr)

    def address(self) -> str:
        with socket.socket() as probe:
            probe.bind(("", 0))
            return f"tcp://{ray.util.get_node_ip_address()}:{probe.getsockname()[1]}"

    def join(self, address: str) -> None:
        if self.size > 1:
            dist.init_process_group("gloo", address, rank=self.rank, world_size=self.size)

    def weights(self) -> Any:
        return self.model.state_dict()

    def learn(self, *samples: dict[str, torch.Tensor]) -> float:
        own = {
            name: torch.cat([s[name] for s in samples])[self.rank :: self.size]
            for name in samples[0]
        }
        for _ in range(2):
            logp, entropy = answers_logp(self.model, own["tokens"])
            ratio = torch.exp(logp - own["logp"])
            advantages = own["advantages"].unsqueeze(1)
            better = torch.min(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)
            self.optimizer.zero_grad()
            (-better.mean() - ENTROPY * entropy.mean()).backward()
            if self.size > 1:
                for parameter in self.model.parameters():
                    dist.all_reduce(parameter.grad)
                    parameter.grad /= self.size
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
        return float(own["rewards"].mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--rollouts", type=int, default=2, help="actors that write answers")
    parser.add_argument("--learners", type=int, default=2, help="actors that train")
    parser.add_argument("--questions", type=int, default=32, help="of each actor, in a step")
    parser.add_argument("--answers", type=int, default=8, help="to each question")
    parser.add_argument("--lr", type=float, default=2e-3)
    options = parser.parse_args()

    ray.init(num_cpus=options.rollouts + options.learners)
    learners = [
        Learner.remote(rank, options.learners, options.lr) for rank in range(options.learners)
    ]
    address = ray.get(learners[0].address.remote())
    ray.get([learner.join.remote(address) for learner in learners])
    rollouts = [Rollouts.remote(seed) for seed in range(options.rollouts)]

    began, curve = time.perf_counter(), []
    for step in range(options.steps):
        # The references travel: what learners and rollout actors read never comes to this process.
        weights = learners[0].weights.remote()
        samples = [r.write.remote(weights, options.questions, options.answers) for r in rollouts]
        rewards = ray.get([learner.learn.remote(*samples) for learner in learners])
        curve.append(sum(rewards) / len(rewards))
        if step % 10 == 9:
            print(f"step {step + 1}: reward {sum(curve[-10:]) / 10:.2f}")
    print(f"seconds: {time.perf_counter() - began:.1f}")
    print(f"first reward: {sum(curve[:5]) / 5:.3f}")
    print(f"last reward: {sum(curve[-5:]) / 5:.3f}")


if __name__ == "__main__":
    main()
