"""The stub of ``ray.serve.RayServeAPIService``: ``ListApplications`` and ``Healthz``."""

from __future__ import annotations

from typing import Any

from heliostat.serve.generated import serve_pb2

_SERVICE = "ray.serve.RayServeAPIService"


class RayServeAPIServiceStub:
    """Calls the service.

    Args:
        channel: Of `grpc` or `grpc.aio`, to Serve's gRPC port.
    """

    def __init__(self, channel: Any) -> None:
        for name in serve_pb2.METHODS:
            call = channel.unary_unary(
                f"/{_SERVICE}/{name}",
                request_serializer=getattr(serve_pb2, f"{name}Request").SerializeToString,
                response_deserializer=getattr(serve_pb2, f"{name}Response").FromString,
            )
            setattr(self, name, call)
