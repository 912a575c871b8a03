"""The parts of the native core that Serve needs beyond the public API.

The session it runs in, entries that outlive its controller, and the frames between the ingress and a replica,
which are encoded and decoded in Rust, and the rule by which both choose a replica.
"""

from __future__ import annotations

from heliostat._heliostat import _serve_break as encode_break
from heliostat._heliostat import _serve_head as encode_head
from heliostat._heliostat import _serve_piece as encode_piece
from heliostat._heliostat import _serve_request_id as new_request_id
from heliostat._heliostat import _serve_seed as seed_request_ids
from heliostat._heliostat import _serve_taken as encode_taken
from heliostat._heliostat import _serve_traced as trace_calls
from heliostat._heliostat import _serve_trailers as encode_trailers
from heliostat._heliostat import _ServeCall as CallBase
from heliostat._heliostat import _ServeGate as GateBase
from heliostat._heliostat import _ServeLoad as LoadBase
from heliostat._heliostat import _ServeReader as FrameReader
from heliostat._heliostat import _ServeResponse as ResponseBase
from heliostat._heliostat import _ServeRoute as Route
from heliostat._heliostat import _ServeRouter as RouterBase
from heliostat._heliostat import _ServeTurns as Turns
from heliostat._heliostat import kv_del, kv_get, kv_keys, kv_put, list_nodes, session, session_epoch
from heliostat.core.aio.futures import on_completed_by_loop as on_completed
from heliostat.core.aio.futures import settle_in_thread, settle_on
from heliostat.core.calls.placement import check_arguments
from heliostat.core.driver.daemon import binary
from heliostat.core.session import begins_none

__all__ = [
    "CallBase",
    "FrameReader",
    "GateBase",
    "LoadBase",
    "ResponseBase",
    "Route",
    "RouterBase",
    "Turns",
    "begins_none",
    "binary",
    "check_arguments",
    "encode_break",
    "encode_head",
    "encode_piece",
    "encode_taken",
    "encode_trailers",
    "kv_del",
    "kv_get",
    "kv_keys",
    "kv_put",
    "list_nodes",
    "new_request_id",
    "on_completed",
    "seed_request_ids",
    "session",
    "session_epoch",
    "settle_in_thread",
    "settle_on",
    "trace_calls",
]
