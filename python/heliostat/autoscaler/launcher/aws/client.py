"""AWS, asked by its own library: clients, and one sentence for each refusal."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from heliostat.autoscaler.launcher.checks import ConfigError
from heliostat.autoscaler.launcher.cloud import CloudError
from heliostat.core.platform.extras import missing

# How long one answer may take, in seconds, and how often a request is made.
_ANSWER_S = 30
_ATTEMPTS = 5
_CREDENTIALS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")


class Refused(CloudError):
    """A refusal; ``code``: AWS's word for it."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Aws:
    """Clients of one region, made when they are first needed."""

    def __init__(self, region: str, credentials: Mapping[str, str]) -> None:
        """Raises ``ConfigError`` where boto3 is missing."""
        try:
            import boto3
        except ImportError:
            raise ConfigError(str(missing("boto3", "A cluster of EC2"))) from None
        known = {key: credentials[key] for key in _CREDENTIALS if key in credentials}
        self.region = region
        self._session = boto3.session.Session(region_name=region, **known)
        self._clients: dict[str, Any] = {}

    def ask(self, service: str, operation: str, **arguments: Any) -> Any:
        """Return the answer of the operation, named as boto3 does. Raises ``CloudError``."""
        with _telling(operation):
            return getattr(self._client(service), operation)(**arguments)

    def pages(self, service: str, operation: str, **arguments: Any) -> Iterator[Any]:
        """Call an operation that answers page by page."""
        with _telling(operation):
            yield from self._client(service).get_paginator(operation).paginate(**arguments)

    def _client(self, service: str) -> Any:
        from botocore.config import Config

        if service not in self._clients:
            config = Config(
                connect_timeout=_ANSWER_S,
                read_timeout=_ANSWER_S,
                retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
            )
            self._clients[service] = self._session.client(service, config=config)
        return self._clients[service]


@contextlib.contextmanager
def _telling(operation: str) -> Iterator[None]:
    from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

    try:
        yield
    except ClientError as error:
        told = error.response.get("Error", {})
        code = str(told.get("Code", ""))
        raise Refused(code, f"AWS refuses {operation}: {code}: {told.get('Message')}") from error
    except NoCredentialsError as error:
        raise CloudError(
            "AWS has no credentials here: run `aws configure`, or set AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY."
        ) from error
    except BotoCoreError as error:
        raise CloudError(f"AWS does not answer {operation}: {error}") from error
