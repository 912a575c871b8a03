"""Serve: handles, HTTP, composition, batching, streaming, replicas, FastAPI."""

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from typing import Any

from fastapi import APIRouter, FastAPI
from pydantic import BaseModel
from ray import serve
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse

from tests.helpers.harness import free_port
from tests.strangers.kit import main, raised, stranger, until

# The usual port, 8000, may be another program's on this machine.
PORT = free_port()
BASE = f"http://127.0.0.1:{PORT}"


def fetch(path: str, data: object = None, method: str | None = None) -> tuple[int, Any]:
    """The status and the body of a request: JSON where it is that, else text."""
    body = None if data is None else json.dumps(data).encode()
    headers = {"Content-Type": "application/json"} if data is not None else {}
    request = urllib.request.Request(BASE + path, data=body, headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            status, text = answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        status, text = error.code, error.read().decode()
    try:
        return status, json.loads(text)
    except ValueError:
        return status, text


class Item(BaseModel):
    name: str
    price: float


@stranger("docs: Serve quickstart", ["Hello there", "Hello handle"])
def a_deployment_of_a_class() -> object:
    """A class answers requests over HTTP and calls of its handle."""

    @serve.deployment
    class Hello:
        def __init__(self, word: str) -> None:
            self.word = word

        def __call__(self, request: Request) -> str:
            return f"{self.word} {request.query_params['name']}"

        def say(self, name: str) -> str:
            return f"{self.word} {name}"

    handle = serve.run(Hello.bind("Hello"), name="hello", route_prefix="/hello")
    found = [fetch("/hello?name=there")[1], handle.say.remote("handle").result(timeout_s=60)]
    serve.delete("hello")
    return found


@stranger("docs: Deploy compositions of models", 14)
def models_that_call_models() -> object:
    """A deployment has handles of others as constructor arguments and awaits them."""

    @serve.deployment
    class Add:
        def __init__(self, n: int) -> None:
            self.n = n

        def add(self, x: int) -> int:
            return x + self.n

    @serve.deployment
    class Both:
        def __init__(self, one: Any, other: Any) -> None:
            self.one, self.other = one, other

        async def __call__(self, x: int) -> int:
            return await self.other.add.remote(await self.one.add.remote(x))

    handle = serve.run(Both.bind(Add.bind(1), Add.bind(3)), name="both", route_prefix=None)
    found = handle.remote(10).result(timeout_s=60)
    serve.delete("both")
    return found


@stranger("raylings: Serve without a port", ["plain", False], cluster={"num_cpus": 3})
def without_an_http_server() -> object:
    """http_options={"location": "NoServer"}: handles work, and no HTTP server runs."""

    @serve.deployment
    def plain() -> str:
        return "plain"

    serve.start(http_options={"location": "NoServer"})
    handle = serve.run(plain.bind(), name="quiet", route_prefix=None)
    word = handle.remote().result(timeout_s=60)
    serve.delete("quiet")
    try:
        fetch("/")
    except urllib.error.URLError:
        return [word, False]
    return [word, True]


@stranger("docs: Handles, passing responses on", [20])
def a_response_as_an_argument() -> object:
    """A response that is not there yet goes into another call."""

    @serve.deployment
    class Double:
        def __call__(self, x: int) -> int:
            return 2 * x

    handle = serve.run(Double.bind(), name="double", route_prefix=None)
    found = handle.remote(handle.remote(5)).result(timeout_s=60)
    serve.delete("double")
    return [found]


@stranger("docs: Dynamic request batching", [[0, 10, 20, 30], True])
def batches_of_requests() -> object:
    """@serve.batch gathers calls; each caller gets its own value."""

    @serve.deployment(max_ongoing_requests=16)
    class Batch:
        def __init__(self) -> None:
            self.largest = 0

        @serve.batch(max_batch_size=4, batch_wait_timeout_s=0.5)
        async def many(self, xs: list[int]) -> list[int]:
            self.largest = max(self.largest, len(xs))
            return [x * 10 for x in xs]

        async def __call__(self, x: int) -> int:
            return await self.many(x)

        def most(self) -> int:
            return self.largest

    handle = serve.run(Batch.bind(), name="batch", route_prefix=None)
    answers = [handle.remote(i) for i in range(4)]
    values = [a.result(timeout_s=60) for a in answers]
    most = handle.most.remote().result(timeout_s=60)
    serve.delete("batch")
    return [values, most > 1]


@stranger("docs: Streaming responses", [[0, 1, 2], "0,1,2,"])
def streams() -> object:
    """A generator by a handle with stream=True, and a StreamingResponse over HTTP."""

    @serve.deployment
    class Count:
        def some(self, n: int) -> Iterator[int]:
            for i in range(n):
                yield i

        async def _text(self, n: int) -> AsyncIterator[str]:
            for i in range(n):
                await asyncio.sleep(0)
                yield f"{i},"

        def __call__(self, request: Request) -> StreamingResponse:
            return StreamingResponse(self._text(3), media_type="text/plain")

    handle = serve.run(Count.bind(), name="count", route_prefix="/count")
    found = [list(handle.options(stream=True).some.remote(3)), fetch("/count")[1]]
    serve.delete("count")
    return found


@stranger(
    "docs: Set up FastAPI and HTTP", [(200, {"name": "a", "double": 4.0}), 422, (200, "7"), 404]
)
def fastapi_routes() -> object:
    """A FastAPI app with a body that is checked, a path parameter, an unknown path."""
    app = FastAPI()

    @serve.deployment
    @serve.ingress(app)
    class Shop:
        @app.post("/items")
        def add(self, item: Item) -> dict[str, object]:
            return {"name": item.name, "double": item.price * 2}

        @app.get("/items/{number}")
        def get(self, number: int) -> str:
            return str(number)

    serve.run(Shop.bind(), name="shop", route_prefix="/shop")
    found = [
        fetch("/shop/items", {"name": "a", "price": 2}),
        fetch("/shop/items", {"name": "a"})[0],
        fetch("/shop/items/7"),
        fetch("/shop/nothing")[0],
    ]
    found[2] = (found[2][0], str(found[2][1]))
    serve.delete("shop")
    return found


@stranger("ray#50373", [(200, "zero"), (200, "one")])
def routers_of_functions() -> object:
    """An app with included routers of plain functions, behind serve.ingress."""
    app = FastAPI()
    zero, one = APIRouter(), APIRouter(prefix="/more")

    @zero.get("/zero")
    async def get_zero() -> str:
        return "zero"

    @one.get("/one")
    async def get_one() -> str:
        return "one"

    app.include_router(zero)
    app.include_router(one)

    @serve.deployment
    @serve.ingress(app)
    class Routed: ...

    serve.run(Routed.bind(), name="routed", route_prefix="/routed")
    found = [fetch("/routed/zero"), fetch("/routed/more/one")]
    serve.delete("routed")
    return found


@stranger("ray#15067", [(200, "root"), (200, "root")])
def the_root_of_an_app() -> object:
    """GET / of a FastAPI app answers with and without the slash at the end."""
    app = FastAPI()

    @serve.deployment
    @serve.ingress(app)
    class Root:
        @app.get("/")
        def root(self) -> str:
            return "root"

    serve.run(Root.bind(), name="root", route_prefix="/app")
    found = [fetch("/app/"), fetch("/app")]
    serve.delete("root")
    return found


@stranger("ray#53024", "RayServeException")
def two_fastapi_apps_in_one_application() -> object:
    """Two deployments with @serve.ingress in one application are refused."""
    one, other = FastAPI(), FastAPI(docs_url=None)

    @serve.deployment
    @serve.ingress(other)
    class Inner:
        def add(self, a: int) -> int:
            return a + 1

    @serve.deployment
    @serve.ingress(one)
    class Outer:
        def __init__(self, inner: Any) -> None:
            self.inner = inner

    serve.start()
    error = raised(lambda: serve.run(Outer.bind(Inner.bind()), name="two"))
    return (
        "RayServeException"
        if isinstance(error, (serve.exceptions.RayServeException, RuntimeError))
        else repr(error)
    )


@stranger("ray#51145", [503])
def too_many_requests() -> object:
    """More requests than max_queued_requests: those over it get 503."""
    import concurrent.futures

    @serve.deployment(max_ongoing_requests=1, max_queued_requests=1)
    class Slow:
        async def __call__(self) -> str:
            await asyncio.sleep(2)
            return "done"

    serve.run(Slow.bind(), name="slow", route_prefix="/slow")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(lambda _: fetch("/slow")[0], range(8)))
    serve.delete("slow")
    return sorted(set(statuses) - {200})


@stranger("docs: Serve, errors", [500, "ValueError", (418, {"said": "teapot"})])
def errors_of_a_deployment() -> object:
    """An exception is 500 over HTTP and raises at the handle; a response of one's own keeps its status."""

    @serve.deployment
    class Bad:
        def __call__(self, request: Request) -> JSONResponse:
            if request.query_params.get("tea"):
                return JSONResponse({"said": "teapot"}, status_code=418)
            raise ValueError("no")

        def fail(self) -> None:
            raise ValueError("no")

    handle = serve.run(Bad.bind(), name="bad", route_prefix="/bad")
    error = raised(lambda: handle.fail.remote().result(timeout_s=60))
    found = [
        fetch("/bad")[0],
        "ValueError" if isinstance(error, ValueError) else repr(error),
        fetch("/bad?tea=1"),
    ]
    serve.delete("bad")
    return found


@stranger("docs: Updating a deployment", ["old", "new", 3])
def a_new_configuration() -> object:
    """reconfigure is called with user_config, and again when another one is deployed; num_replicas changes."""

    @serve.deployment(user_config={"word": "old"})
    class Words:
        def reconfigure(self, config: dict[str, str]) -> None:
            self.word = config["word"]

        def __call__(self) -> str:
            return self.word

    handle = serve.run(Words.bind(), name="words", route_prefix=None)
    first = handle.remote().result(timeout_s=60)
    changed = Words.options(user_config={"word": "new"}, num_replicas=3)
    handle = serve.run(changed.bind(), name="words", route_prefix=None)
    second = handle.remote().result(timeout_s=60)
    [deployment] = serve.status().applications["words"].deployments.values()
    running = until(
        lambda: (
            sum(
                s
                for k, s in serve.status()
                .applications["words"]
                .deployments["Words"]
                .replica_states.items()
                if str(getattr(k, "value", k)) == "RUNNING"
            )
            == 3
            and 3
        )
    )
    assert deployment is not None
    serve.delete("words")
    return [first, second, running]


@stranger("docs: Model multiplexing", [["a", "b", "a"], 2])
def models_by_their_id() -> object:
    """@serve.multiplexed loads a model once for each id of the requests."""

    @serve.deployment
    class Many:
        def __init__(self) -> None:
            self.loads = 0

        @serve.multiplexed(max_num_models_per_replica=3)
        async def model(self, name: str) -> str:
            self.loads += 1
            return name

        async def __call__(self) -> str:
            return await self.model(serve.get_multiplexed_model_id())

        def count(self) -> int:
            return self.loads

    handle = serve.run(Many.bind(), name="many", route_prefix=None)
    names = [
        handle.options(multiplexed_model_id=m).remote().result(timeout_s=60)
        for m in ("a", "b", "a")
    ]
    found = [names, handle.count.remote().result(timeout_s=60)]
    serve.delete("many")
    return found


@stranger("docs: Autoscaling, from zero", "woken")
def a_deployment_that_sleeps() -> object:
    """min_replicas=0: the first request starts a replica."""

    @serve.deployment(
        autoscaling_config={"min_replicas": 0, "initial_replicas": 0, "max_replicas": 2}
    )
    class Sleeper:
        def __call__(self) -> str:
            return "woken"

    handle = serve.run(Sleeper.bind(), name="sleeper", route_prefix=None)
    found = handle.remote().result(timeout_s=80)
    serve.delete("sleeper")
    return found


@stranger("docs: Serve, contexts and names", ["ctx", "Who", True])
def who_a_replica_is() -> object:
    """get_replica_context names the application and the deployment; a handle is found by names."""

    @serve.deployment
    class Who:
        def __call__(self) -> list[str]:
            context = serve.get_replica_context()
            return [context.app_name, context.deployment]

    serve.run(Who.bind(), name="ctx", route_prefix=None)
    handle = serve.get_app_handle("ctx")
    same = serve.get_deployment_handle("Who", "ctx").remote().result(timeout_s=60)
    found = handle.remote().result(timeout_s=60)
    serve.delete("ctx")
    return [*found, same == found]


@stranger("forum: calling a deployment handle from async code", [3, 1])
def a_handle_in_a_coroutine() -> object:
    """``await handle.remote()`` in the driver's own loop; gather of several."""

    @serve.deployment
    def double(x: int) -> int:
        return 2 * x

    handle = serve.run(double.bind(), name="func", route_prefix=None)

    async def ask() -> list[int]:
        return list(await asyncio.gather(*[handle.remote(i) for i in range(3)]))

    found = asyncio.run(ask())
    serve.delete("func")
    return [len(found), found[1] - found[0] - 1]


@stranger("forum: one Serve application breaks while another runs", ["fine", "raises", "fine"])
def one_application_fails() -> object:
    """An application whose constructor fails leaves the other one alone; serve.run raises."""

    @serve.deployment
    class Good:
        def __call__(self) -> str:
            return "fine"

    @serve.deployment
    class Bad:
        def __init__(self) -> None:
            raise RuntimeError("no weights")

    good = serve.run(Good.bind(), name="good", route_prefix=None)
    first = good.remote().result(timeout_s=60)
    raised(lambda: serve.run(Bad.bind(), name="broken", route_prefix=None))
    second = good.remote().result(timeout_s=60)
    for name in ("good", "broken"):
        serve.delete(name)
    return [first, "raises", second]


@stranger("ray#38926", ["RequestCancelledError", "it was told"])
def a_cancelled_call_of_a_handle() -> object:
    """result() of a call that was cancelled raises Serve's own error, and the method is told."""

    @serve.deployment
    class Slow:
        def __init__(self) -> None:
            self.state = "not yet"

        async def wait(self) -> None:
            self.state = "waits"
            try:
                await asyncio.sleep(600)
            except asyncio.CancelledError:
                self.state = "it was told"
                raise

        async def told(self) -> str:
            return self.state

    handle = serve.run(Slow.bind(), name="slow", route_prefix=None)
    call = handle.wait.remote()

    def state() -> str:
        return handle.told.remote().result(timeout_s=60)

    until(lambda: state() == "waits")
    call.cancel()
    error = raised(lambda: call.result(timeout_s=60))
    until(lambda: state() == "it was told", "the method was cancelled")
    told = state()
    serve.delete("slow")
    return [type(error).__name__, told]


if __name__ == "__main__":
    main(started=lambda: serve.start(http_options={"port": PORT}))
