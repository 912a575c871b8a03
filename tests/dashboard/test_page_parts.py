"""The parts of the page in a browser: lists, things, libraries; by keyboard, narrow, and looked at by axe."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers import harness
from tests.helpers.browser import BROWSER, WAIT, accessible, fits, goto, opened
from tests.helpers.web import Head

pytestmark = [
    pytest.mark.contract("F6.05", "F6.26"),
    pytest.mark.heliostat_only("the page is our own"),
    pytest.mark.skipif(not BROWSER, reason="HELIOSTAT_BROWSER names no Chromium"),
]

# Goes on until it is killed.
WORKS = """
import sys, time, ray

ray.init()

@ray.remote
def quick(x):
    return x

@ray.remote(max_retries=0)
def breaks():
    raise ValueError("The table has no column `price`." + f" (part {time.time_ns()})")

@ray.remote(num_cpus=64)
def too_large():
    pass

@ray.remote(num_cpus=0)
class Counter:
    def stays_here(self):
        while True:
            time.sleep(0.1)

    def ping(self):
        return 1

counter = Counter.options(name="the-counter").remote()
ray.get(counter.ping.remote())
held = counter.stays_here.remote()
waits = too_large.remote()
big = ray.put(b"x" * 1_000_000)
group = ray.util.placement_group([{"CPU": 0.5}], name="the-group")
ray.get(group.ready())
for _ in range(3):
    try:
        ray.get(breaks.remote())
    except ray.exceptions.RayTaskError:
        pass
while True:
    ray.get([quick.remote(x) for x in range(5)])
    time.sleep(0.2)
"""


@pytest.fixture(scope="module")
def busy(head: Head, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Head]:
    env = {**head.env, "RAY_ADDRESS": f"127.0.0.1:{head.port}"}
    driver = harness.start_driver(tmp_path_factory.mktemp("busy"), WORKS, env=env)
    yield head
    driver.kill()


def test_the_overview_shows_nodes_tasks_what_waits_and_what_failed(busy: Head) -> None:
    with opened(busy) as page:
        page.get_by_role(
            "application", name=re.compile(r"Tasks in the last minute: [1-9]")
        ).wait_for(timeout=WAIT)
        waits = page.get_by_role("table", name="Waiting for resources")
        waits.get_by_role("row").filter(has_text="64 CPU").wait_for(timeout=WAIT)
        failed = page.get_by_role("table", name="Failed tasks")
        row = failed.get_by_role("row").filter(has_text="breaks")
        row.get_by_text("ValueError: The table has no column `price`. (part").wait_for(timeout=WAIT)
        accessible(page)
        for theme in ("dark", "light"):
            page.emulate_media(color_scheme=theme)
            accessible(page)
        fits(page, 400)
        accessible(page)
        fits(page, 1280)
        # By keyboard: to the page, past the parts.
        page.keyboard.press("Home")
        page.locator("body").press("Tab")
        page.get_by_role("link", name="Skip to content").press("Enter")
        assert page.evaluate("document.activeElement.id") == "main"


def test_a_figure_leads_to_what_it_counts_and_rows_can_be_held(busy: Head) -> None:
    with opened(busy) as page:
        page.get_by_role("link", name="Tasks failed").click(timeout=WAIT)
        page.wait_for_url(re.compile(r"#/tasks\?state=FAILED"), timeout=WAIT)
        rows = page.get_by_role("table", name="tasks").get_by_role("row")
        rows.filter(has_text="breaks").first.wait_for(timeout=WAIT)
        assert page.get_by_label("State").input_value() == "FAILED"
        assert rows.filter(has_text="quick").count() == 0
        # The same part by its name has all rows again, and those are held while calls go on.
        page.get_by_role("link", name="Tasks", exact=True).click()
        rows.filter(has_text="quick").first.wait_for(timeout=WAIT)
        page.get_by_role("button", name="Hold").click()
        listed = page.get_by_role("table", name="tasks")
        held = listed.inner_text()
        with page.expect_response(re.compile(r"/api/v0/tasks\?"), timeout=WAIT):
            pass
        assert listed.inner_text() == held
        page.get_by_role("button", name="Go on").click()
        has_moved = "held => document.querySelector('table[aria-label=tasks]').innerText !== held"
        page.wait_for_function(has_moved, arg=held, timeout=WAIT)
        # What waits is a filter of its own.
        goto(page, busy, "tasks?state=WAITING")
        rows.filter(has_text="too_large").first.wait_for(timeout=WAIT)
        assert rows.filter(has_text="quick").filter(has_text="FINISHED").count() == 0


def test_a_narrow_window_shows_the_whole_of_each_row(busy: Head) -> None:
    with opened(busy) as page:
        page.set_viewport_size({"width": 400, "height": 800})
        for part in ("errors", "jobs", "actors", "tasks", "nodes", "objects"):
            goto(page, busy, part)
            # By its role a row is one, although it is laid out as a block.
            page.locator("main").get_by_role("row").nth(1).wait_for(timeout=WAIT)
            cut = "one => one.scrollWidth > one.clientWidth"
            beyond = f"[...document.querySelectorAll('main .scroll')].filter({cut}).length"
            assert page.evaluate(beyond) == 0, part
            accessible(page)


def test_objects_say_why_nobody_knows_where_they_were_made(busy: Head) -> None:
    with opened(busy) as page:
        goto(page, busy, "objects")
        page.get_by_text("Where objects are created is not recorded").wait_for(timeout=WAIT)
        assert page.get_by_role("columnheader", name="Created at").count() == 0


def test_the_task_stream_is_gone_through_by_keyboard(busy: Head) -> None:
    with opened(busy) as page:
        stream = page.get_by_role(
            "application", name=re.compile(r"Tasks in the last minute: [1-9]")
        )
        stream.wait_for(timeout=WAIT)
        stream.focus()
        # What is drawn goes on: a key is pressed until there is a call to choose.
        tip = page.locator(".lanes .tip")
        for _ in range(100):
            page.keyboard.press("ArrowLeft")
            if tip.count():
                break
            page.wait_for_timeout(100)
        tip.get_by_text("process").wait_for(timeout=WAIT)
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile("#/tasks/[0-9a-f]+"), timeout=WAIT)


def test_metrics_have_a_past(busy: Head) -> None:
    with opened(busy) as page:
        goto(page, busy, "metrics")
        for name in ("CPUs", "CPUs of the machine, %", "Memory of the machine, GiB"):
            page.get_by_role("img", name=name, exact=True).wait_for(timeout=WAIT)
        accessible(page)
        page.get_by_label("Range").select_option("last day")
        page.get_by_text("averages over").wait_for(timeout=WAIT)
        fits(page, 400)
        accessible(page)
        page.emulate_media(color_scheme="dark")
        accessible(page)


def test_each_list_leads_to_the_page_of_each_thing(busy: Head) -> None:
    with opened(busy) as page:
        goto(page, busy, "actors")
        page.get_by_role("link", name="Counter", exact=True).click()
        page.get_by_role("heading", name="Counter the-counter ALIVE").wait_for(timeout=WAIT)
        page.get_by_role("link", name="Counter.stays_here").first.wait_for(timeout=WAIT)
        accessible(page)
        # From the actor to its process, and there its stack.
        page.locator("dd a[href*='workers/']").first.click()
        page.get_by_role("heading", name=re.compile(r"Process \d+ on .* ALIVE")).wait_for(
            timeout=WAIT
        )
        page.get_by_role("button", name="Stack dump").click()
        page.locator("pre[aria-label=Stacks]").get_by_text("stays_here").wait_for(timeout=WAIT)
        page.get_by_role("button", name="CPU profile, 5 s").click()
        flame = page.get_by_role("group", name="Flame graph")
        flame.get_by_role("button", name=re.compile("stays_here")).first.wait_for(timeout=WAIT)
        accessible(page)
        # A failed task: why, and what it went through.
        goto(page, busy, "errors")
        errors = page.get_by_role("table", name="Errors")
        row = errors.get_by_role("row").filter(has_text="breaks")
        # They name another part each.
        row.get_by_role("cell", name="3", exact=True).wait_for(timeout=WAIT)
        row.locator("a[href*='tasks/']").click()
        page.get_by_role("heading", name="breaks FAILED").wait_for(timeout=WAIT)
        page.locator("pre.message").get_by_text("The table has no column").wait_for(timeout=WAIT)
        page.get_by_role("table", name="States").get_by_text("RUNNING").wait_for(timeout=WAIT)
        accessible(page)
        page.get_by_role("link", name="Nodes").first.click()
        page.get_by_role("table", name="Nodes").locator("a").first.click()
        page.get_by_role("heading", name="ALIVE").wait_for(timeout=WAIT)
        page.get_by_role("table", name="workers").wait_for(timeout=WAIT)
        accessible(page)
        goto(page, busy, "placement_groups")
        page.get_by_role("link", name="the-group").click()
        page.get_by_role("heading", name="the-group CREATED").wait_for(timeout=WAIT)
        page.get_by_role("table", name="Bundles").get_by_text("0.5 CPU").wait_for(timeout=WAIT)
        accessible(page)


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ("tasks", "quick"),
        ("actors", "Counter"),
        ("workers", "ALIVE"),
        ("objects", "KiB"),
        ("placement_groups", "the-group"),
        ("events", "here"),
        ("errors", "breaks"),
        ("timeline", "quick"),
        ("jobs", "driver"),
        ("nodes", "head"),
        ("training", "No training run"),
        ("tuning", "No search has been started"),
        ("datasets", "No dataset has been executed"),
        ("serving", "This cluster serves no application"),
        ("logs", "node.err"),
    ],
)
def test_each_part_is_accessible_and_fits(busy: Head, part: str, text: str) -> None:
    with opened(busy) as page:
        goto(page, busy, part)
        shown = page.locator("main").get_by_text(text).locator("visible=true")
        shown.first.wait_for(timeout=WAIT)
        accessible(page)
        fits(page, 400)
        page.get_by_role("button", name="Menu").click()
        page.get_by_role("link", name="Placement groups").wait_for(timeout=WAIT)
        page.get_by_role("button", name="Menu").click()
        fits(page, 1280)


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ("tasks/ab", "There is no task ab."),
        ("actors/ab", "There is no actor ab."),
        ("workers/ab", "There is no worker ab."),
        ("nodes/ab", "There is no node ab."),
        ("placement_groups/ab", "There is no placement group ab."),
        ("jobs/ab", "ab"),
        ("datasets/ab", "There is no execution ab"),
        ("tuning/ab", "There is no search ab"),
        ("serving/ab", "There is no application ab."),
        ("training/ab", "There is no training run ab"),
        ("nothing", "There is no page of that name"),
        ("tasks/%", "There is no task %."),
    ],
)
def test_an_id_that_nobody_knows_is_said(busy: Head, part: str, text: str) -> None:
    with opened(busy, answers={404}) as page:
        goto(page, busy, part)
        page.locator("main").get_by_text(text).first.wait_for(timeout=WAIT)
        accessible(page)


LIBRARIES = """
import pathlib, sys, time
import ray
from ray import serve, tune

gate = pathlib.Path(sys.argv[1], "gate")

def waits():
    while not gate.exists():
        time.sleep(0.05)

def trains(config):
    for step in range(3):
        tune.report({"loss": config["lr"] * (3 - step)})
    waits()
    if config["lr"] > 0.4 and config["kind"] == "b":
        raise ValueError(f"too much for {id(config)}")

def slow(batch):
    time.sleep(0.3)
    return batch

@serve.deployment(health_check_period_s=0.5, ray_actor_options={"num_cpus": 0})
class Echo:
    def __call__(self, text):
        return text

ray.init()
serve.start(http_options={"location": "NoServer"})
handle = serve.run(Echo.bind(), name="the-app", route_prefix="/echo")
for _ in range(20):
    handle.remote("x").result()
for _ in ray.data.range(80, override_num_blocks=8).map_batches(slow, batch_size=None).iter_batches():
    pass
space = {"lr": tune.grid_search([0.25, 0.5]), "kind": tune.grid_search(["a", "b"])}
run = tune.RunConfig(name="the-search", storage_path=sys.argv[1], verbose=0)
tune.Tuner(tune.with_resources(trains, {"cpu": 0.1}), param_space=space, run_config=run,
           tune_config=tune.TuneConfig(metric="loss", mode="min", num_samples=2)).fit()
time.sleep(1000)
"""


def test_datasets_searches_and_applications(own_head: Head, tmp_path: Path) -> None:
    head = own_head
    head.start()
    pytest.importorskip("starlette", reason="Serve needs starlette")
    env = {**head.env, "RAY_ADDRESS": f"127.0.0.1:{head.port}"}
    driver = harness.start_driver(tmp_path, LIBRARIES, args=[str(tmp_path)], env=env)
    try:
        with opened(head) as page:
            # An application, which goes on.
            goto(page, head, "serving")
            page.get_by_role("link", name="the-app").click(timeout=WAIT)
            page.get_by_role("heading", name="the-app RUNNING").wait_for(timeout=WAIT)
            page.get_by_role("img", name="Latency of Echo").wait_for(timeout=WAIT)
            replicas = page.get_by_role("table", name="Replicas of Echo")
            replicas.get_by_role("row").filter(has_text="RUNNING").wait_for(timeout=WAIT)
            accessible(page)
            fits(page, 400)
            fits(page, 1280)
            # A search, while its trials wait.
            goto(page, head, "tuning")
            page.get_by_role("link", name="the-search").click(timeout=WAIT)
            page.get_by_role("heading", name="the-search RUNNING").wait_for(timeout=WAIT)
            lines = page.get_by_role("img", name="Parallel coordinates of 8 trials: kind, lr, loss")
            lines.wait_for(timeout=WAIT)
            assert lines.locator("path").count() == 8
            shares = page.get_by_role("table", name="Importance of parameters").get_by_role("row")
            shares.filter(has_text="lr").filter(has_text="100 %").wait_for(timeout=WAIT)
            accessible(page)
            fits(page, 400)
            fits(page, 1280)
            (tmp_path / "gate").touch()
            page.get_by_role("heading", name="the-search FINISHED").wait_for(timeout=WAIT)
            best = page.locator("p", has_text="Best trial")
            best.get_by_text("lr=0.25").wait_for(timeout=WAIT)
            page.get_by_role("img", name="Best loss so far").wait_for(timeout=WAIT)
            failed = page.get_by_role("table", name="Errors").get_by_role("row")
            failed.filter(has_text="too much for").get_by_role(
                "cell", name="2", exact=True
            ).wait_for(timeout=WAIT)
            accessible(page)
            fits(page, 400)
            # An execution that has ended.
            goto(page, head, "datasets")
            page.get_by_role("link", name=re.compile("Dataset_")).first.click(timeout=WAIT)
            page.get_by_role("heading", name="FINISHED").wait_for(timeout=WAIT)
            page.get_by_role("img", name=re.compile(r"Plan of \d operators")).wait_for(timeout=WAIT)
            table = page.get_by_role("table", name="Operators")
            table.get_by_role("row").filter(has_text="MapBatches(slow)").filter(
                has_text="80"
            ).wait_for(timeout=WAIT)
            accessible(page)
            fits(page, 400)
    finally:
        driver.kill()
