"""The servicers of gRPC that a user names: which methods they have, and how messages become bytes.

The functions that generated code has for this, ``add_…Servicer_to_server``, tell a server of a
servicer's methods. Here they tell a list: the server is Serve's ingress, and the servicers are deployments.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from heliostat.core.platform.extras import required


class Method(NamedTuple):
    """A method of a service."""

    decode: Callable[[bytes], Any]
    encode: Callable[[Any], bytes]
    takes_stream: bool
    gives_stream: bool


class _Servicer:
    """Has every method: none of them is called."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


class _Methods:
    """The stand-in that generated code takes for a server."""

    def __init__(self) -> None:
        self.found: dict[str, Method] = {}

    def add_generic_rpc_handlers(self, handlers: Iterable[Any]) -> None:
        for handler in handlers:
            for path, method in handler._method_handlers.items():
                self.found[path] = Method(
                    method.request_deserializer or bytes,
                    method.response_serializer or bytes,
                    bool(method.request_streaming),
                    bool(method.response_streaming),
                )

    def add_registered_method_handlers(self, service: str, methods: dict[str, Any]) -> None:
        """Newer generated code says the same a second time."""


def imported(path: str) -> Callable[..., Any]:
    """The function at ``module.function``.

    Raises:
        ModuleNotFoundError: The module is not there.
        ValueError: It has no such function.
    """
    module, _, name = path.rpartition(":" if ":" in path else ".")
    if not module:
        raise ValueError(
            f"grpc_servicer_functions: {path!r} is not an import path: write it as "
            "module.add_MyServiceServicer_to_server."
        )
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name == "grpc":
            raise ModuleNotFoundError(
                "Code that is generated for gRPC needs the package grpcio: pip install "
                "'heliostat[serve-grpc]'",
                name="grpc",
            ) from None
        raise ModuleNotFoundError(
            f"grpc_servicer_functions: {path!r} cannot be imported: {error}. Its module has to be where "
            "Serve's processes find it: beside the program, installed on each node, or in PYTHONPATH.",
            name=error.name,
        ) from error
    found = getattr(found, name, None)
    if not callable(found):
        raise ValueError(
            f"grpc_servicer_functions: the module {module!r} has no function {name!r}. Generated code names "
            "it add_MyServiceServicer_to_server."
        )
    return found  # type: ignore[no-any-return] # the user's


def described(methods: Iterable[str]) -> dict[str, Any]:
    """Return the description of these methods' services for server reflection, as `helio-ingress`
    reads it.

    Generated code registers its messages with protobuf when it is imported; those that it did not are not
    told of.
    """
    messages = required("google.protobuf.descriptor_pb2", "gRPC", "serve-grpc")
    pool = required("google.protobuf.descriptor_pool", "gRPC", "serve-grpc").Default()
    services = sorted({path.split("/")[1] for path in methods})
    told: dict[str, Any] = {"services": services, "symbols": {}, "files": {}}
    for service in services:
        try:
            found = pool.FindServiceByName(service)
        except KeyError:
            continue
        _describe(found.file, told, messages.FileDescriptorProto)
    return told


def _describe(file: Any, told: dict[str, Any], message: Callable[[], Any]) -> list[str]:
    """Adds a file and what it imports; all their names, its own first."""
    if file.name in told["files"]:
        return [file.name, *told["files"][file.name]["imports"]]
    row = told["files"][file.name] = {"hex": "", "imports": []}
    imports: dict[str, None] = {}
    for one in file.dependencies:
        imports.update(dict.fromkeys(_describe(one, told, message)))
    row["imports"] = list(imports)
    copy = message()
    file.CopyToProto(copy)
    row["hex"] = copy.SerializeToString().hex()
    symbols = [*file.services_by_name.values(), *file.enum_types_by_name.values()]
    for service in file.services_by_name.values():
        symbols += service.methods
    kinds = list(file.message_types_by_name.values())
    while kinds:
        kind = kinds.pop()
        symbols += [kind, *kind.enum_types]
        kinds += kind.nested_types
    told["symbols"].update((one.full_name, file.name) for one in symbols)
    return [file.name, *row["imports"]]


def methods_of(functions: Iterable[str]) -> dict[str, Method]:
    """All methods by path, ``/package.Service/Method``. Raises as ``imported``."""
    server = _Methods()
    for path in functions:
        imported(path)(_Servicer(), server)
    return server.found
