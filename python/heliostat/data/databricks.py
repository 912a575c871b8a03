"""Credentials for Databricks, and requests to it."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from typing import Any

from heliostat.data.http import HttpError, request

TOKEN = "DATABRICKS_TOKEN"
HOST = "DATABRICKS_HOST"


class DatabricksCredentialProvider(ABC):
    """Base class of what knows the token and the host of a workspace. It is pickled for the tasks."""

    @abstractmethod
    def get_token(self) -> str:
        """Return the token as it is now."""

    @abstractmethod
    def get_host(self) -> str:
        """Return the workspace's address."""

    @abstractmethod
    def invalidate(self) -> None:
        """Called when Databricks refused the token: get another one, where that is possible."""


class StaticCredentialProvider(DatabricksCredentialProvider):
    """A token and a host that stay as they are.

    Raises:
        ValueError: One of them is empty.
    """

    def __init__(self, token: str, host: str) -> None:
        if not token:
            raise ValueError("Token cannot be empty or None")
        if not host:
            raise ValueError("Host cannot be empty or None")
        self._token, self._host = token, host

    def get_token(self) -> str:
        """Return the token."""
        return self._token

    def get_host(self) -> str:
        """Return the workspace's address."""
        return self._host

    def invalidate(self) -> None:
        """Do nothing."""


class EnvironmentCredentialProvider(DatabricksCredentialProvider):
    """The token and the host of environment variables; the token is read again when it was refused.

    Args:
        token_env_var: The variable of the token. Default: "DATABRICKS_TOKEN".
        host_env_var: The variable of the host. Default: "DATABRICKS_HOST".

    Raises:
        ValueError: One of them is not set.
    """

    def __init__(self, token_env_var: str = TOKEN, host_env_var: str = HOST) -> None:
        self._token_env_var = token_env_var
        self._token = self._of(token_env_var, "your Databricks access token")
        self._host = self._of(host_env_var, "the workspace, such as adb-1.2.azuredatabricks.net")

    def _of(self, name: str, what: str) -> str:
        value = os.environ.get(name)
        if not value:
            raise ValueError(f"Environment variable '{name}' is not set: set it to {what}.")
        return value

    def get_token(self) -> str:
        """Return the token."""
        return self._token

    def get_host(self) -> str:
        """Return the workspace's address."""
        return self._host

    def invalidate(self) -> None:
        """Read the token again."""
        self._token = os.environ.get(self._token_env_var) or self._token


class Workspace:
    """A workspace of Databricks, by its credentials."""

    def __init__(self, credentials: DatabricksCredentialProvider) -> None:
        self._credentials = credentials

    @property
    def address(self) -> str:
        """The workspace's URL."""
        host = self._credentials.get_host().rstrip("/")
        return host if host.startswith(("http://", "https://")) else f"https://{host}"

    def token(self) -> str:
        """The token as it is now."""
        return self._credentials.get_token()

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """The answer to a request, which is made again once with another token if this one is refused.

        Raises:
            HttpError: It was refused.
        """
        for is_last in (False, True):
            headers = {"Authorization": f"Bearer {self.token()}"}
            try:
                return json.loads(request(method, f"{self.address}{path}", headers, body))
            except HttpError as error:
                if error.status != 401 or is_last:
                    raise
                self._credentials.invalidate()
        raise AssertionError
