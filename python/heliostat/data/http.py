"""Requests over HTTP that data of services comes by; what passes is tried again."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request

from heliostat.data import retries

TIMEOUT_S = 60.0
SAID_MAX = 500  # letters of an answer that an error shows


class HttpError(Exception):
    """A service refused a request.

    Args:
        status: Its number, such as 404.
        said: What it answered.
        what: The request, such as "GET http://host/a".
    """

    def __init__(self, status: int, said: str, what: str) -> None:
        super().__init__(f"{what} was answered {status}: {said[:SAID_MAX]}")
        self.status, self.said, self.what = status, said, what

    def __reduce__(self) -> tuple[type[HttpError], tuple[int, str, str]]:
        return type(self), (self.status, self.said, self.what)


class _Passing(HttpError):
    """The service is busy, or is being restarted."""


BUSY = (429, 500, 502, 503, 504)


def request(
    method: str, url: str, headers: dict[str, str] | None = None, body: object = None
) -> bytes:
    """The answer to a request.

    Args:
        method: Such as "GET".
        url: Where.
        headers: Of the request.
        body: What is sent, as JSON. Default: nothing.

    Raises:
        HttpError: It was refused; or the service was busy for too long.
        ConnectionError: The service cannot be reached.
    """
    given = dict(headers or {})
    data = None
    if body is not None:
        data = json.dumps(body).encode()
        given.setdefault("Content-Type", "application/json")
    where = url.partition("?")[0]  # what comes after it may be a signature

    def once() -> bytes:
        asked = urllib.request.Request(url, data, given, method=method)
        try:
            with urllib.request.urlopen(asked, timeout=TIMEOUT_S) as answer:
                found: bytes = answer.read()
                return found
        except urllib.error.HTTPError as error:
            kind = _Passing if error.code in BUSY else HttpError
            said = error.read().decode("utf-8", "replace")
            raise kind(error.code, said, f"{method} {where}") from None
        except (OSError, http.client.HTTPException) as error:  # refused, broken off, too late
            raise ConnectionError(f"{method} {where}: {error}") from error

    return retries.retried(once, f"{method} {where}", (_Passing, ConnectionError))
