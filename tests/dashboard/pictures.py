"""Makes the pictures of the page in `docs/images`: a cluster at work, seen by a browser.

HELIOSTAT_BROWSER=/usr/bin/chromium PYTHONPATH=. .venv/bin/python tests/dashboard/pictures.py

It needs Playwright and Pillow, and takes the page that `npm run build` has made, not the daemon's. With the
name of a folder it also puts each part there, light and dark, in a wide window and a narrow one.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.helpers import harness, web

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
PAGE = ROOT / "crates" / "helio-dashboard" / "page" / "dist"
WAIT = 120_000
SIZE = {"width": 1280, "height": 800}
NARROW = {"width": 400, "height": 800}
TALL = 1500
WORK = ("overview", "jobs", "tasks", "actors", "timeline", "errors")
LIBRARIES = ("training", "tuning", "datasets", "serving")
CLUSTER = ("nodes", "metrics", "workers", "placement_groups", "objects", "events", "logs")
PARTS = (*WORK, *LIBRARIES, *CLUSTER)
# Parts with a page of each thing that they list.
DETAILED = ("jobs", "tasks", "nodes", "workers", "tuning", "datasets", "serving")
COLOURS = 256  # of a picture: flat colours and text need no more, and a file is small

DRIVERS = {
    "etl": """
import random, time, ray
ray.init()

cache = []

@ray.remote(num_cpus=0.5)
def extract(part):
    cache.append([bytes(9000) for _ in range(50)])
    time.sleep(random.uniform(0.1, 0.6))

@ray.remote(num_cpus=0.5)
def load(part, rows):
    time.sleep(random.uniform(0.2, 1.0))

@ray.remote(max_retries=0)
def check(part):
    raise ValueError("part-17.parquet has no column `price`.")

@ray.remote(num_gpus=1)
def embed(part):
    pass

waits = [embed.remote(part) for part in range(4)]
for turn in range(10_000):
    ray.get([load.remote(part, extract.remote(part)) for part in range(4)])
    if turn % 4 == 0:
        try:
            ray.get(check.remote(turn))
        except ray.exceptions.RayTaskError:
            pass
""",
    "images": """
import time, ray
ray.init()

def decode(batch):
    time.sleep(0.4)
    return batch

class Classifier:
    def __call__(self, batch):
        time.sleep(0.5)
        return batch

while True:
    ds = ray.data.range(60_000, override_num_blocks=240).map_batches(decode, num_cpus=0.5)
    ds = ds.map_batches(Classifier, concurrency=1, num_cpus=0, batch_size=500)
    for _ in ds.iter_batches():
        pass
""",
    "search": """
import random, time, ray
from ray import tune
ray.init()

def trains(config):
    for step in range(12):
        time.sleep(0.15)
        loss = (config["lr"] * 100 - 1) ** 2 / 9 + config["layers"] / 12 + 1 / (step + 1)
        tune.report({"loss": loss + random.random() / 30})

space = {
    "lr": tune.loguniform(1e-4, 1e-1),
    "layers": tune.choice([1, 2, 4, 8]),
    "dropout": tune.uniform(0, 0.5),
    "optimizer": tune.choice(["adam", "sgd", "lion"]),
}
config = tune.TuneConfig(metric="loss", mode="min", num_samples=40, max_concurrent_trials=4)
run = tune.RunConfig(name="resnet", storage_path=FOLDER, verbose=0)
tune.Tuner(tune.with_resources(trains, {"cpu": 0.1}), param_space=space, tune_config=config,
           run_config=run).fit()
time.sleep(10_000)
""",
    "runs": """
import math, random, tempfile, threading, time, ray
from ray import train
from ray.train import RunConfig, ScalingConfig
from ray.train.data_parallel_trainer import DataParallelTrainer
ray.init()

def loop(config):
    for step in range(160):
        time.sleep(0.1)
        loss = math.exp(-step * config["lr"]) + 0.1 + random.random() / 40
        metrics = {"loss": loss, "accuracy": 1 - loss / 2, "lr": config["lr"] * 0.99**step}
        if step % 40 != 39:
            train.report(metrics)
            continue
        with tempfile.TemporaryDirectory() as folder:
            train.report(metrics, checkpoint=train.Checkpoint.from_directory(folder))

def trains(name, lr):
    DataParallelTrainer(
        loop,
        train_loop_config={"lr": lr},
        scaling_config=ScalingConfig(num_workers=2, resources_per_worker={"CPU": 0.05}),
        run_config=RunConfig(name=name, storage_path=FOLDER),
    ).fit()

trains("resnet-slow", 0.02)
trains("resnet-quick", 0.06)
time.sleep(10_000)
""",
    "shop": """
import random, threading, time, ray
from ray import serve
ray.init()

@serve.deployment(num_replicas=2, health_check_period_s=2, ray_actor_options={"num_cpus": 0})
class Model:
    def __call__(self, text):
        time.sleep(random.uniform(0.01, 0.12))
        return text

serve.start(http_options={"location": "NoServer"})
handle = serve.run(Model.bind(), name="shop", route_prefix="/shop")

def asks():
    while True:
        handle.remote("x").result()
        time.sleep(random.uniform(0, 0.1))

for _ in range(6):
    threading.Thread(target=asks, daemon=True).start()
time.sleep(10_000)
""",
}


def picture(page: Any, name: str) -> None:
    """Write what is seen, in few colours."""
    from PIL import Image

    seen = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    IMAGES.mkdir(exist_ok=True)
    # Without the rounds of k-means the ground, most of a picture, is the mean of what is like it.
    small = seen.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, kmeans=2, dither=Image.Dither.NONE)
    small.save(IMAGES / f"{name}.png", optimize=True)


def of_sources(page: Any) -> None:
    """Have the browser take the page from where it is built."""
    for file in ("page.js", "page.css"):
        page.route(f"**/{file}", lambda route, request, file=file: route.fulfill(path=PAGE / file))


def opened(page: Any, part: str) -> None:
    """The page of what a part lists first."""
    page.goto(f"{page.url.partition('#')[0]}#/{part}")
    page.locator(f"main td a[href^='#/{part}/']").first.click(timeout=WAIT)


def every(page: Any, folder: Path) -> None:
    """Write what each part shows, in both colours and both widths."""
    folder.mkdir(parents=True, exist_ok=True)
    base = page.url.partition("#")[0]
    addresses = {part: f"{base}#/{part.replace('overview', '')}" for part in PARTS}
    for part in DETAILED:
        opened(page, part)
        addresses[f"{part}-one"] = page.url
    for name, address in addresses.items():
        page.goto(address)
        page.wait_for_timeout(3000)
        for colour in ("light", "dark"):
            page.emulate_media(color_scheme=colour)
            for width in (SIZE["width"], NARROW["width"]):
                page.set_viewport_size({"width": width, "height": TALL})
                page.wait_for_timeout(700)  # charts take their new size
                page.screenshot(path=folder / f"{name}-{colour}-{width}.png")
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(SIZE)


def look(head: web.Head, folder: Path | None) -> None:
    from playwright.sync_api import Error, sync_playwright

    link = head.run("dashboard").stdout.strip()
    with sync_playwright() as started:
        path = os.environ.get("HELIOSTAT_BROWSER") or None
        browser = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE)
        of_sources(page)
        page.goto(link)
        page.get_by_role("table", name="Failed tasks").wait_for(timeout=WAIT)
        page.wait_for_timeout(60_000)  # the last minute is one
        picture(page, "page-overview")
        page.emulate_media(color_scheme="dark")
        picture(page, "page-overview-dark")
        page.emulate_media(color_scheme="light")
        page.set_viewport_size(NARROW)
        page.wait_for_timeout(1000)  # the charts take their new width
        picture(page, "page-overview-narrow")
        page.set_viewport_size(SIZE)
        opened(page, "nodes")
        page.get_by_role("img", name="Memory of the machine, GiB").wait_for(timeout=WAIT)
        page.get_by_role("heading", name="Machine", exact=True).scroll_into_view_if_needed()
        picture(page, "page-machine")
        # One that has allocated nothing, or ends meanwhile, has no graph.
        for at in range(8):
            page.goto(f"{page.url.partition('#')[0]}#/workers")
            works = page.locator("main tr", has_text="worker").filter(has_text="ALIVE").nth(at)
            works.locator("a[href^='#/workers/']").first.click(timeout=WAIT)
            page.get_by_role("button", name="Memory profile, 10 s").click(timeout=WAIT)
            try:
                page.get_by_role("group", name="Flame graph").wait_for(timeout=30_000)
            except Error:
                continue
            break
        picture(page, "page-memory")
        page.goto(f"{page.url.partition('#')[0]}#/training")
        page.get_by_role("heading", name="resnet-quick FINISHED").wait_for(timeout=WAIT)
        chooser = page.get_by_role("combobox").first
        chooser.select_option(index=1)
        page.get_by_role("img", name="loss over steps").wait_for(timeout=WAIT)
        picture(page, "page-training")
        opened(page, "datasets")
        page.get_by_role("img", name="Rows/s").wait_for(timeout=WAIT)
        picture(page, "page-dataset")
        opened(page, "tuning")
        page.get_by_role("img", name="Parallel coordinates").wait_for(timeout=WAIT)
        picture(page, "page-search")
        page.emulate_media(color_scheme="dark")
        page.set_viewport_size(NARROW)
        page.wait_for_timeout(1000)
        picture(page, "page-search-narrow-dark")
        page.set_viewport_size(SIZE)
        page.emulate_media(color_scheme="light")
        opened(page, "serving")
        page.get_by_role("img", name="Latency of Model").wait_for(timeout=WAIT)
        picture(page, "page-application")
        if folder is not None:
            every(page, folder)
        browser.close()


def main() -> None:
    """The program."""
    head = web.new()
    drivers: list[subprocess.Popen[bytes]] = []
    try:
        head.start("--num-gpus=0")
        env = {**head.env, "RAY_ADDRESS": f"127.0.0.1:{head.port}"}
        for name, code in DRIVERS.items():
            file = Path(tempfile.mkdtemp(dir=head.home)) / f"{name}.py"
            file.write_text(f"FOLDER = {str(head.home)!r}\n{code}")
            drivers.append(subprocess.Popen([sys.executable, file], env=harness.clean_env(env)))
        look(head, Path(sys.argv[1]) if len(sys.argv) > 1 else None)
    finally:
        for driver in drivers:
            driver.kill()
            driver.wait()
        web.end(head)


if __name__ == "__main__":
    main()
