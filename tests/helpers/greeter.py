"""A service of gRPC as protoc would have made it: a module that tests write to where it is imported from."""

from __future__ import annotations

# The code that protoc's plugin makes of a service; its messages are those that come with protobuf.
GENERATED = """
import grpc
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.wrappers_pb2 import Int64Value, StringValue

KINDS = {
    "Hello": (grpc.unary_unary_rpc_method_handler, StringValue, StringValue),
    "Fail": (grpc.unary_unary_rpc_method_handler, StringValue, StringValue),
    "Count": (grpc.unary_stream_rpc_method_handler, Int64Value, Int64Value),
    "Sum": (grpc.stream_unary_rpc_method_handler, Int64Value, Int64Value),
    "Chat": (grpc.stream_stream_rpc_method_handler, StringValue, StringValue),
    "Absent": (grpc.unary_unary_rpc_method_handler, StringValue, StringValue),
}

FILE = descriptor_pb2.FileDescriptorProto(
    name="greeter.proto", package="test", dependency=["google/protobuf/wrappers.proto"]
)
service = FILE.service.add(name="Greeter")
for name, (_, asked, said) in KINDS.items():
    types = (f".{kind.DESCRIPTOR.full_name}" for kind in (asked, said))
    service.method.add(name=name, **dict(zip(("input_type", "output_type"), types)))
descriptor_pool.Default().AddSerializedFile(FILE.SerializeToString())


def add_GreeterServicer_to_server(servicer, server):
    handlers = {
        name: kind(
            getattr(servicer, name),
            request_deserializer=asked.FromString,
            response_serializer=said.SerializeToString,
        )
        for name, (kind, asked, said) in KINDS.items()
    }
    generic = grpc.method_handlers_generic_handler("test.Greeter", handlers)
    server.add_generic_rpc_handlers((generic,))
    server.add_registered_method_handlers("test.Greeter", handlers)
"""
FUNCTION = "greeter_pb2_grpc.add_GreeterServicer_to_server"
