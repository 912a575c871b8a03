"""A server of tests: a workspace of Databricks with its catalog, and shares of Delta Sharing."""

from __future__ import annotations

import contextlib
import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


class Service:
    """The state of the server, and the requests that it got."""

    def __init__(self) -> None:
        self.url = ""
        self.tokens = ["good"]
        self.chunks: list[pa.Table] = []
        self.state = "SUCCEEDED"
        self.pending = 2  # how often a query is still running
        self.busy: list[int] = []  # statuses that are answered first, to requests for data
        self.tables: dict[str, dict[str, Any]] = {}
        self.credentials: dict[str, Any] = {}
        self.shared: dict[str, tuple[pa.Table, dict[str, str]]] = {}  # by file
        self.schema: list[dict[str, Any]] = []
        self.asked: list[tuple[str, str, Any]] = []

    def answer(self, method: str, path: str, body: Any, token: str | None) -> tuple[int, bytes]:
        self.asked.append((method, path, body))
        if path.startswith("/data/"):
            assert token is None, "who one is was told to the storage"
            if self.busy:
                return self.busy.pop(0), b"not now"
            return 200, self._data(path.removeprefix("/data/"))
        if token not in self.tokens:
            return 401, b"who are you"
        said = self._said(method, path, body)
        return (404, b"no such") if said is None else (200, said)

    def _data(self, name: str) -> bytes:
        sink = io.BytesIO()
        if name in self.shared:
            pq.write_table(self.shared[name][0], sink)
            return sink.getvalue()
        table = self.chunks[int(name)]
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        return sink.getvalue()

    def _said(self, method: str, path: str, body: Any) -> bytes | None:
        found: Any = None
        if path.startswith("/api/2.0/sql/statements"):
            found = self._statement(method, path)
        elif path.startswith("/api/2.1/unity-catalog/tables/"):
            found = self.tables.get(path.rpartition("/")[2])
        elif path.endswith("/temporary-table-credentials"):
            found = self.credentials
        elif path == "/shares/s/schemas/x/tables/t/query":
            files = [
                {"file": {"url": f"{self.url}/data/{name}", "partitionValues": values, "size": 100}}
                for name, (_, values) in self.shared.items()
            ]
            about = {"metaData": {"schemaString": json.dumps({"fields": self.schema})}}
            return b"\n".join(json.dumps(one).encode() for one in [{"protocol": {}}, about, *files])
        return None if found is None else json.dumps(found).encode()

    def _statement(self, method: str, path: str) -> Any:
        if path.endswith("/cancel"):
            return {}
        if "/result/chunks/" in path:
            number = path.rpartition("/")[2]
            return {"external_links": [{"external_link": f"{self.url}/data/{number}?sig=1"}]}
        self.pending -= 1
        state = "RUNNING" if self.pending >= 0 else self.state
        chunks = [
            {"chunk_index": i, "row_count": t.num_rows, "byte_count": t.nbytes}
            for i, t in reversed(list(enumerate(self.chunks)))
        ]
        columns = [{"name": "id"}]
        return {
            "statement_id": "q1",
            "status": {"state": state, "error": {"message": "no such table"}},
            "manifest": {"chunks": chunks, "schema": {"columns": columns}},
        }


@contextlib.contextmanager
def serving() -> Iterator[Service]:
    """A server, until the end."""
    service = Service()

    class Handler(BaseHTTPRequestHandler):
        def respond(self) -> None:
            given = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            said = self.headers.get("Authorization")
            token = said.removeprefix("Bearer ") if said else None
            path = self.path.partition("?")[0]
            body = json.loads(given) if given else None
            status, answer = service.answer(self.command, path, body, token)
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_POST = respond  # the library's names

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    service.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
