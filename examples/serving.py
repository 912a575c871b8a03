"""A transformer behind a FastAPI front: requests are batched, text is streamed.

python examples/serving.py
python examples/serving.py --port 8000 --stay      # goes on serving until Ctrl-C

`Classifier` holds the model and answers up to eight requests in one pass. `Front` is a FastAPI
application that calls it through a handle. The model is small and its weights are random: it shows
the plumbing.
"""

from __future__ import annotations

import argparse
import asyncio
import threading
import urllib.request
from collections.abc import AsyncIterator
from typing import Any

import heliostat as ray
from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from heliostat import serve
from heliostat.serve.handle import DeploymentHandle

app = FastAPI()


@serve.deployment(max_ongoing_requests=100)
class Classifier:
    """A transformer that reads bytes."""

    def __init__(self) -> None:
        import torch
        from transformers import BertConfig, BertForSequenceClassification

        torch.manual_seed(0)
        config = BertConfig(
            vocab_size=256,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=64,
            num_labels=3,
        )
        self.model = BertForSequenceClassification(config).eval()
        self.largest_batch = 0

    @serve.batch(max_batch_size=8, batch_wait_timeout_s=0.05)
    async def label(self, texts: list[str]) -> list[int]:
        """The label of each text, in one pass of the model for all of them."""
        import torch

        self.largest_batch = max(self.largest_batch, len(texts))
        rows = [list(text.encode()[:64]) or [0] for text in texts]
        longest = max(map(len, rows))
        tokens = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
        mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
        with torch.no_grad():
            logits = self.model(input_ids=tokens, attention_mask=mask).logits
        return [int(label) for label in logits.argmax(dim=1)]

    async def statistics(self) -> dict[str, int]:
        """How many texts the largest batch had."""
        return {"largest_batch": self.largest_batch}

    async def spell(self, text: str) -> AsyncIterator[str]:
        """The words of a text, one by one, as a language model would say them."""
        for word in text.split():
            await asyncio.sleep(0)
            yield word + "\n"


@serve.deployment
@serve.ingress(app)
class Front:
    """What clients talk to."""

    def __init__(self, classifier: DeploymentHandle) -> None:
        self.classifier = classifier

    @app.get("/label")
    async def label(self, text: str) -> dict[str, Any]:
        """The label of a text."""
        return {"text": text, "label": await self.classifier.label.remote(text)}

    @app.get("/spell")
    async def spell(self, text: str) -> StreamingResponse:
        """Its words, streamed."""
        words = self.classifier.options(stream=True).spell.remote(text)
        return StreamingResponse(words, media_type="text/plain")


def main() -> None:
    """Serve, ask, and say what came back."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--stay", action="store_true", help="serve until Ctrl-C")
    options = parser.parse_args()
    ray.init(num_cpus=2)
    serve.start(http_options={"port": options.port})
    classifier = Classifier.bind()
    handle = serve.run(Front.bind(classifier), blocking=options.stay)
    url = f"http://127.0.0.1:{options.port}"

    def get(path: str) -> str:
        with urllib.request.urlopen(url + path, timeout=60) as answer:
            text: str = answer.read().decode()
            return text

    threads = [threading.Thread(target=get, args=(f"/label?text=number+{i}",)) for i in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print("one answer:", get("/label?text=hello"))
    print("streamed:", get("/spell?text=one+two+three").split())
    model = serve.get_deployment_handle("Classifier", handle.app_name)
    print("largest batch:", model.statistics.remote().result()["largest_batch"])
    serve.shutdown()


if __name__ == "__main__":
    main()
