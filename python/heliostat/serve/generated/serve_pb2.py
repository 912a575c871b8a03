"""The messages of ``ray.serve.RayServeAPIService``.

They are made here as code of protoc would make them: this file needs no compiler, and fits each
release of protobuf.
"""

from __future__ import annotations

from typing import Any

from heliostat.core.platform.extras import required

_WHO = "ray.serve.generated"
_files = required("google.protobuf.descriptor_pb2", _WHO, "serve-grpc")
_pool = required("google.protobuf.descriptor_pool", _WHO, "serve-grpc").Default()
_messages = required("google.protobuf.message_factory", _WHO, "serve-grpc")

_PACKAGE = "ray.serve"
_TEXT = 9  # the type of a field, as descriptor.proto numbers them
_ONE, _MANY = 1, 3  # its label
# Message: its field 1, if it has one.
_FIELDS: dict[str, tuple[str, int] | None] = {
    "ListApplicationsRequest": None,
    "ListApplicationsResponse": ("application_names", _MANY),
    "HealthzRequest": None,
    "HealthzResponse": ("message", _ONE),
}
METHODS = ("ListApplications", "Healthz")


def _file() -> Any:
    file = _files.FileDescriptorProto(
        name="heliostat/serve.proto", package=_PACKAGE, syntax="proto3"
    )
    for name, field in _FIELDS.items():
        message = file.message_type.add(name=name)
        if field is not None:
            message.field.add(name=field[0], number=1, type=_TEXT, label=field[1])
    service = file.service.add(name="RayServeAPIService")
    for name in METHODS:
        service.method.add(
            name=name,
            input_type=f".{_PACKAGE}.{name}Request",
            output_type=f".{_PACKAGE}.{name}Response",
        )
    return file


_pool.AddSerializedFile(_file().SerializeToString())
DESCRIPTOR = _pool.FindFileByName("heliostat/serve.proto")


def _message(name: str) -> Any:
    return _messages.GetMessageClass(DESCRIPTOR.message_types_by_name[name])


ListApplicationsRequest = _message("ListApplicationsRequest")
ListApplicationsResponse = _message("ListApplicationsResponse")
HealthzRequest = _message("HealthzRequest")
HealthzResponse = _message("HealthzResponse")
