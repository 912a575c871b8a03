"""The ingress as the controller sees it: a process to start and a socket to talk to."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import subprocess
from collections.abc import Callable
from typing import Any

from heliostat.core.platform import serving
from heliostat.core.platform.extras import required
from heliostat.serve import sockets, tracing
from heliostat.serve.options import HTTPOptions, TracingConfig, gRPCOptions

logger = logging.getLogger("ray.serve")

_START_S_MAX = 30.0
_AGAIN_S = 0.2
# Bytes of a line that it says: many spans may be in one.
_LINE_MAX = 64 << 20
# LIMIT-1: spans that wait for the user's exporter; further ones are lost.
_SPANS_MAX = 10_000

Counts = Callable[[dict[str, list[int]]], None]
# Routes, and the deployments that they lead to.
Table = tuple[list[dict[str, str]], dict[str, dict[str, Any]]]


class Ingress:
    """The HTTP server of this node. It outlives the controller: the next one finds it by its socket.

    It forgets what it is not told of. So there is a table from the start: the first word to a server that
    was found is what it already serves.
    """

    def __init__(
        self,
        options: HTTPOptions,
        grpc: gRPCOptions,
        on_counts: Counts,
        table: Table,
        traced: TracingConfig | None = None,
    ) -> None:
        here = serving.session()
        self._folder, self._name = here["session_dir"], here["session_name"]
        self._socket = sockets.of_ingress(self._folder)
        self._options, self._grpc = options, grpc
        self._on_counts = on_counts
        self._traced = traced if traced is not None and traced.enabled else None
        self._node = here["node_id"]
        self._written: tracing.Written | None = None
        self._has_failed = False  # to write spans
        self._spans: list[dict[str, Any]] = []
        self._exporting: asyncio.Task[None] | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._table = table
        self._version = 0
        self._acknowledged = 0
        self._news = asyncio.Event()
        self._is_over = False

    @property
    def is_up(self) -> bool:
        """Whether it is connected."""
        return self._writer is not None

    async def start(self) -> None:
        """Find it, or start it. Raises ``RuntimeError`` with its words."""
        try:
            # A controller that starts anew finds the server that its predecessor had started.
            reader = await self._connect()
        except OSError:
            await asyncio.get_running_loop().run_in_executor(None, self._spawn)
            reader = await self._connect()
        self._reading = asyncio.get_running_loop().create_task(self._keep(reader))

    async def _connect(self) -> asyncio.StreamReader:
        reader, self._writer = await asyncio.open_unix_connection(self._socket, limit=_LINE_MAX)
        self._send()
        return reader

    def _spawn(self) -> None:
        options = self._options
        command = [
            str(serving.binary()),
            "serve-ingress",
            *("--session-dir", self._folder),
            *("--host", str(options.host)),
            *("--port", str(options.port)),
            *("--keep-alive-s", str(options.keep_alive_timeout_s)),
        ]
        if self._grpc.methods:
            command += ["--grpc-port", str(self._grpc.port)]
        key = b""
        if options.ssl_certfile and options.ssl_keyfile:
            given = options.ssl_keyfile
            if options.ssl_keyfile_password:
                # By a pipe: a key must not be seen in a list of processes, nor lie on the disk.
                given, key = "-", decrypted(options.ssl_keyfile, options.ssl_keyfile_password)
            command += ["--tls-certificate", options.ssl_certfile, "--tls-key", given]
            if options.ssl_ca_certs:
                command += ["--tls-clients", options.ssl_ca_certs]
        log = os.path.join(self._folder, "logs", "serve-ingress.err")
        with open(log, "ab") as errors:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, "HELIOSTAT_SESSION": self._name},
                # The ingress goes on serving while the controller is down.
                start_new_session=True,
                cwd="/",
            )
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError), process.stdin as to:
            to.write(key)
        with process.stdout as out:
            # One line when it listens, or why it does not: a port may be taken.
            line = out.readline()
        said = json.loads(line) if line else {"error": f"it ended; see {log}"}
        if "error" in said:
            process.wait()
            raise RuntimeError(f"The HTTP server of Serve did not start: {said['error']}")

    async def _keep(self, reader: asyncio.StreamReader) -> None:
        """Read what it says; where it has ended, start another."""
        while True:
            while line := await self._line(reader):
                said = json.loads(line)
                if "acked" in said:
                    self._acknowledged = max(self._acknowledged, said["acked"])
                    self._news.set()
                elif "counts" in said:
                    self._on_counts(said["counts"])
                elif "spans" in said:
                    self._export(said["spans"])
            self._writer = None
            # Whoever waits for an acknowledgement waits no longer: it will not come.
            self._news.set()
            while self._writer is None:
                if self._is_over:
                    return
                try:
                    reader = await self._connect()
                except OSError:
                    logger.warning("The HTTP server of Serve has ended and is started again.")
                    try:
                        await asyncio.get_running_loop().run_in_executor(None, self._spawn)
                    except RuntimeError as error:
                        logger.error("%s", error)
                        await asyncio.sleep(_AGAIN_S)

    def _export(self, rows: list[dict[str, Any]]) -> None:
        """Write spans, one line of them after the other, in a thread: an exporter may take its time."""
        # LIMIT-1: an exporter that hangs costs spans, and not memory.
        self._spans += rows[: max(0, _SPANS_MAX - len(self._spans))]
        if self._exporting is None or self._exporting.done():
            self._exporting = asyncio.get_running_loop().create_task(self._write_all())

    async def _write_all(self) -> None:
        while self._spans:
            rows, self._spans = self._spans, []
            await asyncio.get_running_loop().run_in_executor(None, self._write_spans, rows)

    def _write_spans(self, rows: list[dict[str, Any]]) -> None:
        assert self._traced is not None
        try:
            if self._written is None:
                self._written = tracing.Written(self._traced, self._node, self._folder)
            self._written.write(rows)
        except Exception as error:
            # Once: an exporter that is down fails for each request.
            if not self._has_failed:
                logger.exception("Spans of the HTTP server are lost: %s", error)
            self._has_failed = True

    async def _line(self, reader: asyncio.StreamReader) -> bytes:
        with contextlib.suppress(OSError):
            return await reader.readline()
        return b""

    def tell(self, table: Table) -> None:
        """Have it serve those routes."""
        self._table = table
        self._send()

    def _send(self) -> None:
        if self._writer is None:
            return
        self._version += 1
        routes, deployments = self._table
        grpc = {
            "methods": self._grpc.methods,
            "described": self._grpc.described,
            "request_timeout_s": self._grpc.request_timeout_s or self._options.request_timeout_s,
        }
        options = {
            "request_timeout_s": self._options.request_timeout_s,
            "grpc": grpc,
            "traced": None if self._traced is None else self._traced.sampling_ratio,
        }
        said = {
            "version": self._version,
            "routes": routes,
            "deployments": deployments,
            "options": options,
        }
        self._writer.write(json.dumps(said).encode() + b"\n")

    async def acknowledged(self) -> None:
        """Once it serves what it was told last."""
        version = self._version
        while self._acknowledged < version and self._writer is not None:
            self._news.clear()
            await self._news.wait()

    async def stop(self) -> None:
        """End it, and wait for that."""
        self._is_over = True
        if self._writer is not None:
            self._writer.write(b'{"stop": true}\n')
            if self._reading is not None:
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._reading, _START_S_MAX)
        if self._exporting is not None:
            await self._exporting
        if self._written is not None:
            await asyncio.get_running_loop().run_in_executor(None, self._written.end)


def decrypted(path: str, password: str) -> bytes:
    """A private key in PEM, without its password. Raises ``RuntimeError`` where it cannot be had."""
    try:
        keys = required("cryptography.hazmat.primitives.serialization", "An encrypted ssl_keyfile")
        with open(path, "rb") as file:
            key = keys.load_pem_private_key(file.read(), password.encode())
    except ImportError as error:
        raise RuntimeError(str(error)) from None
    except (OSError, TypeError, ValueError) as error:
        raise RuntimeError(f"ssl_keyfile={path} cannot be used: {error}") from None
    pem: bytes = key.private_bytes(keys.Encoding.PEM, keys.PrivateFormat.PKCS8, keys.NoEncryption())
    return pem
