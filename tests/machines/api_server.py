"""A stand-in for the API server of Kubernetes: resources over HTTPS, behind a token, on one of the machines.

It has what KubeRay's operator and an autoscaler need of it: objects by path, read whole and changed by JSON
patches (RFC 6902) or merge patches (RFC 7396).
"""

from __future__ import annotations

import copy
import ctypes
import datetime
import http.server
import ipaddress
import json
import secrets
import socket
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from tests.machines.machines import Machine

T = TypeVar("T")
PORT = 6443
_CLONE_NEWNET = 0x40000000


def within(machine: Machine, do: Callable[[], T]) -> T:
    """Do something in the network of a machine, with the files of this process."""
    outcome: list[T] = []
    failure: list[BaseException] = []

    def enter() -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        with open(f"/proc/{machine.pid}/ns/net") as network:
            if libc.setns(network.fileno(), _CLONE_NEWNET):
                failure.append(OSError(ctypes.get_errno(), "setns"))
                return
        try:
            outcome.append(do())
        except BaseException as error:
            failure.append(error)

    # Only this thread changes networks, and it ends.
    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return outcome[0]


class ApiServer:
    """`resources`: JSON by path, such as ``/apis/ray.io/v1/namespaces/default/rayclusters/team``."""

    def __init__(self, machine: Machine, folder: Path) -> None:
        self.address = (machine.ip, PORT)
        self.token = secrets.token_hex(16)
        self.resources: dict[str, dict[str, Any]] = {}
        self.patches: list[tuple[str, Any]] = []
        self.changed = threading.Condition()
        folder.mkdir(parents=True, exist_ok=True)
        # What a pod finds in /var/run/secrets/kubernetes.io/serviceaccount.
        self.account = folder
        key, certificate = _certificate(machine.ip)
        (folder / "ca.crt").write_bytes(certificate)
        (folder / "token").write_text(self.token)
        (folder / "namespace").write_text("default")
        (folder / "key").write_bytes(key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "ca.crt", folder / "key")
        (folder / "key").unlink()
        listener = within(machine, lambda: socket.create_server(("", PORT)))
        self._server = _Server(listener, context, self)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def environment(self) -> dict[str, str]:
        """What every pod is told of it."""
        host, port = self.address
        return {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": str(port)}

    def get(self, path: str) -> dict[str, Any]:
        with self.changed:
            return copy.deepcopy(self.resources[path])

    def put(self, path: str, resource: dict[str, Any]) -> None:
        with self.changed:
            self.resources[path] = copy.deepcopy(resource)
            self.changed.notify_all()

    def delete(self, path: str) -> None:
        with self.changed:
            self.resources.pop(path, None)
            self.changed.notify_all()

    def patch(self, path: str, patch: Any, kind: str) -> dict[str, Any]:
        with self.changed:
            before = copy.deepcopy(self.resources[path])
            after = _json_patch(before, patch) if "json-patch" in kind else _merge(before, patch)
            self.resources[path] = after
            self.patches.append((path, patch))
            self.changed.notify_all()
            return copy.deepcopy(after)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, listener: socket.socket, context: ssl.SSLContext, api: ApiServer) -> None:
        super().__init__(("", 0), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket, self.context, self.api = listener, context, api

    def finish_request(self, request: Any, client_address: Any) -> None:
        # In the thread of the request, so that nobody waits for a slow handshake of others.
        with self.context.wrap_socket(request, server_side=True) as stream:
            super().finish_request(stream, client_address)


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _answer(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _is_allowed(self) -> bool:
        api = self.server.api  # type: ignore[attr-defined] # ours
        if self.headers.get("Authorization") == f"Bearer {api.token}":
            return True
        self._answer(401, {"kind": "Status", "message": "Unauthorized"})
        return False

    def do_GET(self) -> None:
        if not self._is_allowed():
            return None
        api = self.server.api  # type: ignore[attr-defined] # ours
        path, _, query = self.path.partition("?")
        with api.changed:
            if path in api.resources:
                return self._answer(200, api.resources[path])
            below = [one for name, one in api.resources.items() if name.startswith(f"{path}/")]
        if path.endswith(("/pods", "/rayclusters")):
            for part in query.split("&"):
                name, _, selector = part.partition("=")
                if name == "labelSelector":
                    key, _, value = selector.replace("%2F", "/").replace("%3D", "=").partition("=")
                    below = [
                        one for one in below if one["metadata"].get("labels", {}).get(key) == value
                    ]
            return self._answer(200, {"items": below, "metadata": {"resourceVersion": "1"}})
        return self._answer(404, {"kind": "Status", "message": "not found"})

    def do_PATCH(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if not self._is_allowed():
            return None
        api = self.server.api  # type: ignore[attr-defined] # ours
        try:
            after = api.patch(self.path, json.loads(body), self.headers["Content-Type"])
        except (KeyError, IndexError, ValueError) as error:
            return self._answer(422, {"kind": "Status", "message": repr(error)})
        return self._answer(200, after)

    def log_message(self, *_: Any) -> None:
        """Nobody reads it."""


def _json_patch(document: Any, patch: list[dict[str, Any]]) -> Any:
    for step in patch:
        parts = [part.replace("~1", "/").replace("~0", "~") for part in step["path"].split("/")]
        holder = document
        for part in parts[1:-1]:
            holder = holder[int(part)] if isinstance(holder, list) else holder[part]
        last: Any = int(parts[-1]) if isinstance(holder, list) else parts[-1]
        if step["op"] == "test":
            if holder[last] != step["value"]:
                raise ValueError(f"test failed: {step}")
        elif step["op"] in ("replace", "add"):
            if step["op"] == "replace" and isinstance(holder, dict) and last not in holder:
                raise KeyError(step["path"])
            holder[last] = step["value"]
        else:
            raise ValueError(f"unknown operation: {step}")
    return document


def _merge(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merge(merged.get(key), value)
    return merged


def _certificate(ip: str) -> tuple[bytes, bytes]:
    """A key and a certificate for that address, which is its own authority."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "kubernetes")])
    now = datetime.datetime.now(datetime.timezone.utc)
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(ip))])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    plain = serialization.NoEncryption()
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    return private, certificate.public_bytes(pem)
