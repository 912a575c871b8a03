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

from heliostat.core import daemon, serving
from heliostat.core.extras import required
from heliostat.serve import sockets
from heliostat.serve.options import HTTPOptions, gRPCOptions

logger = logging.getLogger("ray.serve")

_START_S_MAX = 30.0
_AGAIN_S = 0.2

Counts = Callable[[dict[str, list[int]]], None]
# Routes, and the deployments that they lead to.
Table = tuple[list[dict[str, str]], dict[str, dict[str, Any]]]


class Ingress:
    """The HTTP server of this node. It outlives the controller: the next one finds it by its socket.

    It forgets what it is not told of. So there is a table from the start: the first word to a server that
    was found is what it already serves.
    """

    def __init__(
        self, options: HTTPOptions, grpc: gRPCOptions, on_counts: Counts, table: Table
    ) -> None:
        here = serving.session()
        self._folder, self._name = here["session_dir"], here["session_name"]
        self._socket = sockets.of_ingress(self._folder)
        self._options, self._grpc = options, grpc
        self._on_counts = on_counts
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
            reader = await self._connect()
        except OSError:
            await asyncio.get_running_loop().run_in_executor(None, self._spawn)
            reader = await self._connect()
        self._reading = asyncio.get_running_loop().create_task(self._keep(reader))

    async def _connect(self) -> asyncio.StreamReader:
        reader, self._writer = await asyncio.open_unix_connection(self._socket)
        self._send()
        return reader

    def _spawn(self) -> None:
        options = self._options
        command = [
            str(daemon.binary()),
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
                start_new_session=True,
                cwd="/",
            )
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError), process.stdin as to:
            to.write(key)
        with process.stdout as out:
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
            self._writer = None
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
        options = {"request_timeout_s": self._options.request_timeout_s, "grpc": grpc}
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
