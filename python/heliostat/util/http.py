"""Asking a cluster's head over HTTP, from machines that are not in the cluster too."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from heliostat.core.driver import address as addresses
from heliostat.core.driver import daemon
from heliostat.core.platform import auth, encryption, settings

PORT = 8265
ANSWER_S_MAX = 120.0


@dataclass(frozen=True)
class Answer:
    """The answer of a server."""

    status: int
    body: bytes

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode(errors="replace")

    def json(self) -> Any:
        """The body read as JSON; raises ``RuntimeError`` when it is not JSON."""
        try:
            return json.loads(self.body)
        except ValueError:
            raise RuntimeError(f"The server's answer is not JSON: {self.text[:200]}") from None


class Server:
    """A head's HTTP server."""

    def __init__(
        self,
        url: str,
        headers: Mapping[str, Any] | None = None,
        cookies: Mapping[str, Any] | None = None,
        verify: str | bool = True,
    ) -> None:
        self.url = url.rstrip("/")
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not the address of a dashboard: use http://host:port")
        self.host, self.prefix = parts.netloc.rpartition("@")[2], parts.path
        self._name = parts.hostname
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._tls = _trust(verify) if parts.scheme == "https" else None
        self.headers = {str(name): str(value) for name, value in (headers or {}).items()}
        if cookies:
            self.headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in cookies.items())
        if not any(name.lower() == "authorization" for name in self.headers):
            token = _token()
            if token and token != auth.OPEN_TOKEN:
                self.headers["Authorization"] = f"Bearer {token}"

    def place(self) -> tuple[str, int, ssl.SSLContext | None]:
        """Host, port, and whom to trust there."""
        return self._name, self._port, self._tls

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = ANSWER_S_MAX,
    ) -> Answer:
        """Make a request.

        Raises ``ConnectionError`` when nothing answers within ``timeout`` seconds, and
        ``AuthenticationError`` when the token is missing or wrong.
        """
        link = self._link(timeout)
        try:
            link.request(method, self.prefix + path, body, {**self.headers, **(headers or {})})
            got = link.getresponse()
            answer = Answer(got.status, got.read())
        except (OSError, http.client.HTTPException) as error:
            raise ConnectionError(self._unreached(error)) from error
        finally:
            link.close()
        if answer.status in (401, 403):
            from heliostat.core.errors import AuthenticationError

            raise AuthenticationError(answer.text)
        return answer

    @contextlib.contextmanager
    def streamed(self, path: str, timeout: float | None) -> Iterator[http.client.HTTPResponse]:
        """Make a request and read its answer as it comes; ``timeout``: the longest silence.

        Raises as :meth:`ask` does.
        """
        link = self._link(timeout)
        try:
            link.request("GET", self.prefix + path, None, self.headers)
            answer = link.getresponse()
            if answer.status in (401, 403):
                from heliostat.core.errors import AuthenticationError

                raise AuthenticationError(answer.read().decode(errors="replace"))
            yield answer
        except (OSError, http.client.HTTPException) as error:
            raise ConnectionError(self._unreached(error)) from error
        finally:
            link.close()

    def _unreached(self, error: Exception) -> str:
        text = f"Failed to connect to Ray at address: {self.url}. ({error})"
        if isinstance(error, ConnectionRefusedError) and not _is_here(self._name):
            text += (
                " Nothing listens there: a head's dashboard is heard by other machines only with "
                "`--dashboard-host=0.0.0.0`."
            )
        return text

    def _link(self, timeout: float | None) -> http.client.HTTPConnection:
        if self._tls is None:
            return http.client.HTTPConnection(self._name, self._port, timeout=timeout)
        return http.client.HTTPSConnection(
            self._name, self._port, timeout=timeout, context=self._tls
        )


def _is_here(host: str) -> bool:
    return host == "localhost" or host.startswith("127.") or host == "::1"


def server_url(address: str | None) -> str:
    """The URL of the HTTP server of the cluster that is meant.

    RAY_API_SERVER_ADDRESS and RAY_ADDRESS go before ``address``; ``None`` and ``"auto"`` are the
    cluster of this machine, whose head may be another one: its server is taken to be at the usual
    port there. Raises ``ConnectionError`` when there is no cluster here.
    """
    wanted = settings.text("API_SERVER_ADDRESS") or settings.text("ADDRESS") or address
    if wanted and "://" in wanted:
        return wanted
    temp_dir = settings.temp_dir()
    here = list(daemon.running(temp_dir))
    if wanted not in (None, "", "auto", "local"):
        here = [node for node in here if addresses.is_same(node.control_address, str(wanted))]
    found = next((node.webui_url for node in here if node.webui_url), None)
    if found:
        return f"http://{found}"  # of this machine: nothing is heard on the way
    if own := next((node for node in here if node.is_head), None):
        raise ConnectionError(
            "The cluster that runs on this machine has no dashboard to ask, as a script started it "
            "without one. Pass include_dashboard=True to ray.init() in the script. The cluster's "
            f"logs are in {own.session_dir}/logs."
        )
    if wanted in (None, "", "auto", "local"):
        # A machine that has joined: its head has the server.
        wanted = next((node.control_address for node in here if node.control_address), None)
    if wanted is None:
        raise ConnectionError(
            "No cluster with a dashboard runs on this machine. `heliostat start --head` starts one; "
            "elsewhere, name it: http://<head>:8265."
        )
    host, _, _ = str(wanted).rpartition(":")
    scheme = "https" if encryption.files() else "http"
    return f"{scheme}://{host}:{PORT}"


def _token() -> str | None:
    """The token, where there is one; without one the server says what is missing."""
    from heliostat.core.errors import AuthenticationError

    try:
        return auth.token(create=False)
    except (AuthenticationError, OSError):
        return None


def _trust(verify: str | bool) -> ssl.SSLContext:
    if verify is False:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    if verify is True:
        context = ssl.create_default_context()
        files = encryption.files()
        if files:
            # The cluster's authority, besides those of the system.
            context.load_verify_locations(files.authority)
        return context
    if os.path.isdir(verify):
        return ssl.create_default_context(capath=verify)
    if os.path.isfile(verify):
        return ssl.create_default_context(cafile=verify)
    raise FileNotFoundError(f"Path to CA certificates: '{verify}', does not exist.")
