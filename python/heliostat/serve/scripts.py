"""The command ``serve``: run, deploy, status, config, build, start, delete, shutdown."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from heliostat.core.errors import AuthenticationError
from heliostat.core.platform import settings
from heliostat.core.platform.extras import missing
from heliostat.core.platform.version import RAY_VERSION
from heliostat.serve.exceptions import RayServeException
from heliostat.util.http import Server

_PATH = "/api/serve/applications/"
# Seconds between two looks at files, and at the state of applications.
_LOOK_EVERY_S = 0.5
_FAILURES = (
    AuthenticationError,
    ConnectionError,
    RayServeException,
    RuntimeError,
    TypeError,
    ValueError,
    OSError,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what is asked for; the exit code."""
    options = _parser().parse_args(arguments)
    try:
        options.action(options)
    except (*_FAILURES, ImportError, AttributeError, NotImplementedError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def cli() -> NoReturn:
    """The program."""
    sys.exit(main())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="serve", description="Applications of Serve on a cluster."
    )
    actions = parser.add_subparsers(
        required=True, metavar="run|deploy|status|why|config|build|start|delete|shutdown"
    )

    def action(name: str, does: Any, help: str) -> Any:
        made = actions.add_parser(name, help=help, description=help, allow_abbrev=False)
        made.set_defaults(action=does)
        return made

    def at_dashboard(made: Any) -> None:
        made.add_argument(
            "-a",
            "--address",
            default=settings.text("DASHBOARD_ADDRESS"),
            help="the head's http://host:8265 [default: $RAY_DASHBOARD_ADDRESS, http://localhost:8265]",
        )

    def at_cluster(made: Any) -> None:
        made.add_argument(
            "-a", "--address", help="the cluster's host:port, as for init [default: $RAY_ADDRESS]"
        )

    def code(made: Any) -> None:
        made.add_argument(
            "config_or_import_path", help="a YAML file, or module:application, or module:function"
        )
        made.add_argument("arguments", nargs="*", metavar="key=value", help="for the function")
        made.add_argument("--runtime-env", help="a YAML file with the runtime environment")
        made.add_argument("--runtime-env-json", help="the runtime environment, as JSON")
        made.add_argument("--working-dir", help="the folder that replicas run in")

    def app_dir(made: Any) -> None:
        made.add_argument(
            "-d", "--app-dir", default=".", help="where import paths are looked for [default: .]"
        )

    run = action("run", _run, "Run an application, or those of a YAML file, until Ctrl-C.")
    code(run)
    app_dir(run)
    at_cluster(run)
    run.add_argument("--blocking", action="store_true", default=True, help=argparse.SUPPRESS)
    run.add_argument(
        "--non-blocking", action="store_false", dest="blocking", help="leave it running"
    )
    run.add_argument(
        "-r", "--reload", action="store_true", help="deploy again when a file of the folder changes"
    )
    run.add_argument("--route-prefix", default="/", help="where it answers [default: /]")
    run.add_argument("--name", default="default", help="the application's name [default: default]")

    deploy = action("deploy", _deploy, "Deploy to a cluster that runs, through its dashboard.")
    code(deploy)
    at_dashboard(deploy)
    deploy.add_argument("--name", help="the application's name [default: default]")

    for name, does, what in (
        ("status", _status, "Say how the applications stand."),
        ("config", _config, "Print the configurations of the applications."),
    ):
        made = action(name, does, what)
        at_dashboard(made)
        made.add_argument("-n", "--name", help="of this application alone")

    build = action("build", _build, "Write a YAML file for applications.")
    build.add_argument("import_paths", nargs="+", help="module:application of each")
    app_dir(build)
    build.add_argument("-o", "--output-path", help="the file [default: standard output]")

    start = action("start", _start, "Start Serve on a cluster.")
    at_cluster(start)
    start.add_argument("--http-host", default="127.0.0.1", help="[default: 127.0.0.1]")
    start.add_argument("--http-port", type=int, default=8000, help="[default: 8000]")
    start.add_argument(
        "--proxy-location", choices=["Disabled", "HeadOnly", "EveryNode"], default="EveryNode"
    )

    delete = action("delete", _delete, "Delete an application.")
    delete.add_argument("name", help="the application's name")
    at_cluster(delete)

    why = action("why", _why, "Say why an application or a deployment is not up.")
    why.add_argument("name", help="its name, or application#deployment")
    at_cluster(why)

    health = action("controller-health", _controller_health, "Say how Serve's controller fares.")
    at_cluster(health)
    health.add_argument("--json", action="store_true", help="as JSON [default: YAML]")

    shutdown = action("shutdown", _shutdown, "End Serve and delete all its applications.")
    at_dashboard(shutdown)
    shutdown.add_argument("-y", "--yes", action="store_true", help="do not ask")
    return parser


# --- what is given


def _yaml() -> Any:
    try:
        import yaml
    except ImportError:
        raise RuntimeError(str(missing("yaml", "Files of Serve"))) from None
    return yaml


def _file(path: str) -> Any:
    yaml = _yaml()
    try:
        return yaml.safe_load(Path(path).read_text())
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is not YAML: {error}") from None


def _arguments(given: list[str]) -> dict[str, str]:
    found = {}
    for one in given:
        key, _, value = one.partition("=")
        if not key or not value:
            raise ValueError(f"Invalid application argument {one!r}: write it as key=value.")
        found[key] = value
    return found


def _environment(options: argparse.Namespace) -> dict[str, Any]:
    if options.runtime_env and options.runtime_env_json:
        raise ValueError("Only one of `--runtime-env` and `--runtime-env-json` can be given.")
    found: Any = {}
    if options.runtime_env:
        found = _file(options.runtime_env)
    elif options.runtime_env_json:
        found = json.loads(options.runtime_env_json)
    if not isinstance(found, dict):
        raise ValueError("The runtime environment must be a mapping.")
    if options.working_dir:
        found["working_dir"] = options.working_dir
    return found


def _checked(path: str) -> dict[str, Any]:
    """The configuration of a file, after a warning of fields that mean nothing."""
    from heliostat.serve import declaration

    config = _file(path)
    declaration.parsed(config)
    for field in declaration.unknown_fields(config):
        print(f"Warning: {path}: the field {field} is unknown and is ignored.", file=sys.stderr)
    return dict(config)


# --- on this cluster


def _init(options: argparse.Namespace, env: dict[str, Any] | None = None) -> None:
    from heliostat.core.platform.sessions import begin_unless_begun
    from heliostat.serve import specs

    begin_unless_begun(address=options.address, namespace=specs.NAMESPACE, runtime_env=env or None)


def _run(options: argparse.Namespace) -> None:
    from heliostat import serve
    from heliostat.serve import building

    if options.reload and not options.blocking:
        raise ValueError("`--non-blocking` and `--reload` cannot be given both.")
    sys.path.insert(0, os.path.abspath(options.app_dir))
    path, given = options.config_or_import_path, _arguments(options.arguments)
    env = _environment(options)
    config, app = None, None
    if Path(path).is_file():
        if given:
            print("Warning: arguments are ignored for a file.", file=sys.stderr)
        print(f"Running config file: '{path}'.", flush=True)
        config = _checked(path)
    else:
        print(f"Running import path: '{path}'.", flush=True)
        app = building.application(path, dict(given))
    changes = _changes(Path(options.working_dir or options.app_dir))
    next(changes)  # what is there now is no change
    _init(options, env)
    try:
        _deploy_here(options, config, app)
        if options.blocking:
            said: dict[str, str] = {}
            while True:
                _say_changes(said)
                if options.reload and next(changes):
                    _deploy_again(options, given)
                time.sleep(_LOOK_EVERY_S)
    except KeyboardInterrupt:
        print("Got KeyboardInterrupt, shutting down...", flush=True)
        serve.shutdown()
    except BaseException:
        serve.shutdown()
        raise


def _deploy_here(options: argparse.Namespace, config: Any, app: Any) -> None:
    from heliostat import serve
    from heliostat.serve import rest

    if config is not None:
        rest.deploy(config)
        print("Submitted deploy config successfully.", flush=True)
    else:
        serve.run(app, name=options.name, route_prefix=options.route_prefix)


def _deploy_again(options: argparse.Namespace, given: dict[str, str]) -> None:
    """After a change of files. What fails leaves the application as it was."""
    from heliostat.serve import building

    path = options.config_or_import_path
    print("Files have changed: deploying again.", flush=True)
    try:
        if Path(path).is_file():
            _deploy_here(options, _checked(path), None)
        else:
            _forget(Path(options.working_dir or options.app_dir))
            _deploy_here(options, None, building.application(path, dict(given)))
    except Exception:
        traceback.print_exc()
        print("Deploying the latest version of the application failed.", file=sys.stderr)


def _forget(folder: Path) -> None:
    """Have the modules of a folder imported anew: those that the application imports have changed too."""
    for name, module in sys.modules.copy().items():
        file = getattr(module, "__file__", None)
        if name == "__main__" or not file or "site-packages" in Path(file).parts:
            continue
        if Path(file).is_relative_to(folder.resolve()):
            del sys.modules[name]


def _changes(folder: Path) -> Iterator[bool]:
    """Whether files of a folder have changed since the last time."""
    before: dict[str, tuple[int, int]] = {}
    while True:
        now = {}
        for place, folders, names in os.walk(folder):
            folders[:] = [
                one for one in folders if not one.startswith((".", "__pycache__", "node_modules"))
            ]
            for name in names:
                if not name.startswith(".") and not name.endswith((".pyc", "~", ".swp")):
                    path = os.path.join(place, name)
                    with contextlib.suppress(OSError):  # gone in this moment
                        found = os.stat(path)
                        now[path] = found.st_mtime_ns, found.st_size
        is_other, before = now != before, now
        yield is_other


def _say_changes(said: dict[str, str]) -> None:
    from heliostat import serve

    for name, app in serve.status().applications.items():
        text = f"Application '{name}' is {app.status.value}. {app.message}".rstrip()
        if said.get(name) != text:
            said[name] = text
            print(text, flush=True)


def _start(options: argparse.Namespace) -> None:
    from heliostat import serve

    _init(options)
    serve.start(
        proxy_location=options.proxy_location,
        http_options={"host": options.http_host, "port": options.http_port},
    )


def _delete(options: argparse.Namespace) -> None:
    from heliostat import serve

    _init(options)
    if options.name not in serve.status().applications:
        raise ValueError(f"Application '{options.name}' does not exist.")
    serve.delete(options.name)
    print(f"Application '{options.name}' is deleted.")


def _controller(options: argparse.Namespace) -> Any:
    import heliostat as ray
    from heliostat.serve import api, specs

    # The words of the program alone: neither a cluster that it starts nor logs of replicas.
    ray.init(
        options.address or "auto",
        namespace=specs.NAMESPACE,
        log_to_driver=False,
        logging_level="ERROR",
    )
    controller = api.running()
    if controller is None:
        raise RuntimeError(
            "Serve does not run on the cluster. `serve run` or `serve start` starts it."
        )
    return controller


def _controller_health(options: argparse.Namespace) -> None:
    import heliostat as ray

    told = ray.get(_controller(options).get_health_metrics.remote())
    print(json.dumps(told, indent=2) if options.json else _dumped(told).rstrip())


def _why(options: argparse.Namespace) -> None:
    import heliostat as ray

    controller = _controller(options)
    text = ray.get(controller.why.remote(options.name))
    if text is None:
        raise ValueError(
            f"Serve has neither an application nor a deployment {options.name!r}. `serve status` shows those "
            "that there are."
        )
    print(text)


def _build(options: argparse.Namespace) -> None:
    from heliostat.serve import building, declaration
    from heliostat.serve.controller.details import options_of
    from heliostat.serve.deployment import Application
    from heliostat.serve.options import attribute

    sys.path.insert(0, os.path.abspath(options.app_dir))
    apps = []
    for number, path in enumerate(options.import_paths, 1):
        found = attribute(path)
        if not isinstance(found, Application):
            raise TypeError(f"Expected '{path}' to be an Application but got {type(found)}.")
        name = f"app{number}"
        route = "/" if len(options.import_paths) == 1 else f"/{name}"
        spec = building.built(name, route, path, {})
        apps.append(
            {
                "name": name,
                "route_prefix": route,
                "import_path": path,
                "runtime_env": {},
                "deployments": [options_of(one, changed=True) for one in spec.deployments.values()],
            }
        )
    config = {
        "proxy_location": "EveryNode",
        "http_options": {"host": "0.0.0.0", "port": 8000},
        "grpc_options": {"port": 9000, "grpc_servicer_functions": []},
        "applications": apps,
    }
    declaration.parsed(config)
    head = f"# Written by `serve build` of Ray {RAY_VERSION}.\n\n"
    text = head + "\n".join(_dumped({key: value}) for key, value in config.items())
    print(
        "The applications are named app1, app2 and so on. Rename them as necessary.",
        file=sys.stderr,
    )
    if options.output_path:
        Path(options.output_path).write_text(text)
    else:
        print(text, end="")


# --- through a dashboard


def _ask(options: argparse.Namespace, method: str, body: Any = None) -> Any:
    if "://" not in options.address or not options.address.startswith(("http://", "https://")):
        raise ValueError(
            f"{options.address!r} is not the address of a dashboard: it begins with http:// or https://. "
            "It may come from RAY_DASHBOARD_ADDRESS."
        )
    data = None if body is None else json.dumps(body).encode()
    answer = Server(options.address).ask(
        method, _PATH, data, {"Content-Type": "application/json"} if data else None
    )
    if answer.status != 200:
        raise RuntimeError(f"Request failed with status code {answer.status}: {answer.text}")
    return answer.json() if method == "GET" else None


def _deploy(options: argparse.Namespace) -> None:
    path, given = options.config_or_import_path, _arguments(options.arguments)
    env = _environment(options)
    if Path(path).is_file():
        print(f"Deploying from config file: '{path}'.")
        if given:
            raise ValueError("Application arguments cannot be specified for a config file.")
        for name, value in (("runtime_env", env), ("name", options.name)):
            if value:
                print(f"Warning: the given {name} is ignored for a file.", file=sys.stderr)
        config = _checked(path)
    else:
        print(f"Deploying from import path: '{path}'.")
        app = {"import_path": path, "runtime_env": env, "args": given}
        config = {"applications": [{**app, "name": options.name} if options.name else app]}
        from heliostat.serve import declaration

        declaration.parsed(config)
    _ask(options, "PUT", config)
    print(
        "\nSent deploy request successfully.\n"
        " * Use `serve status` to check applications' statuses.\n"
        " * Use `serve config` to see the current application config(s).\n"
    )


def _status(options: argparse.Namespace) -> None:
    from heliostat.serve.schema import status_of

    status = dataclasses.asdict(status_of(_ask(options, "GET")))
    if options.name is not None:
        if options.name not in status["applications"]:
            raise ValueError(f'Application "{options.name}" does not exist.')
        status = status["applications"][options.name]
    print(_dumped(_plain(status)), end="")


def _config(options: argparse.Namespace) -> None:
    apps = _ask(options, "GET")["applications"]
    configs = {name: app["deployed_app_config"] for name, app in apps.items()}
    if options.name is not None:
        if configs.get(options.name) is None:
            print(f'No config has been deployed for application "{options.name}".')
        else:
            print(_dumped(configs[options.name]), end="")
        return
    texts = [_dumped(config) for config in configs.values() if config is not None]
    print("\n---\n\n".join(texts) if texts else "No configuration was found.\n", end="")


def _shutdown(options: argparse.Namespace) -> None:
    try:
        told = _ask(options, "GET")
    except ConnectionError as error:
        # Scripts shut down what may be gone already.
        print(f"Nothing was shut down at {options.address}: {error}", file=sys.stderr)
        return
    if told["controller_info"]["node_id"] is None:
        print(f"No Serve instance found running on the cluster at {options.address}.")
        return
    if not options.yes:
        said = input(
            f'This will shut down Serve on the cluster at address "{options.address}" and delete all '
            "applications there. Do you want to continue? [y/N]: "
        )
        if said.strip().lower() not in ("y", "yes"):
            raise RuntimeError("Aborted!")
    _ask(options, "DELETE")
    print("Serve was shut down and its applications are deleted.")


def _plain(value: Any) -> Any:
    """Without enumerations, which YAML would name by their classes."""
    if isinstance(value, dict):
        return {_plain(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return str(value.value) if hasattr(value, "value") else value


def _dumped(value: Any) -> str:
    yaml = _yaml()

    Dumper = type("Dumper", (yaml.SafeDumper,), {})

    def text(dumper: Any, one: str) -> Any:
        style = "|" if "\n" in one else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", one, style=style)

    Dumper.add_representer(str, text)  # type: ignore[attr-defined] # SafeDumper's
    said: str = yaml.dump(value, Dumper=Dumper, default_flow_style=False, sort_keys=False, width=80)
    return said


if __name__ == "__main__":
    cli()
