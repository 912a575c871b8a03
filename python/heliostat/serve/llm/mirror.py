"""Models that lie in a cloud's storage: ``CloudMirrorConfig``, and how they get to a replica's machine."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from heliostat.core.platform.extras import required

__all__ = ["CloudMirrorConfig", "ExtraFiles"]

# The storage's name by the beginning of a URI.
STORAGES = {"s3": "s3", "gs": "gcs", "abfss": "abfss", "azure": "azure"}


class ExtraFiles(BaseModel):
    """Files next to a model.

    Attributes:
        bucket_uri: Where they are.
        destination_path: The file or folder of the replica's machine that gets them.
    """

    model_config = ConfigDict(extra="forbid")

    bucket_uri: str
    destination_path: str


class CloudMirrorConfig(BaseModel):
    """A model's folder in a cloud's storage, for ``model_source``; each machine fetches it once.

    Attributes:
        bucket_uri: Of ``s3://``, ``gs://``, ``abfss://`` or ``azure://``, which fsspec reads.
        extra_files: Further files to fetch before the model is loaded.

    Raises:
        ValueError: The URI names no such storage.

    Examples:
        >>> from ray.serve.llm import CloudMirrorConfig, ModelLoadingConfig
        >>> mirror = CloudMirrorConfig(bucket_uri="s3://models/small")
        >>> mirror.storage_type
        's3'
        >>> place = ModelLoadingConfig(model_id="small", model_source=mirror)
    """

    model_config = ConfigDict(extra="forbid")

    bucket_uri: str | None = None
    extra_files: list[ExtraFiles] = Field(default_factory=list)

    @field_validator("bucket_uri")
    @classmethod
    def _is_of_a_cloud(cls, value: str | None) -> str | None:
        if value is not None and value.partition("://")[0] not in STORAGES:
            known = ", ".join(f"{one}://" for one in STORAGES)
            raise ValueError(f"`bucket_uri` begins with one of {known}, unlike {value!r}.")
        return value

    @property
    def storage_type(self) -> str | None:
        """``"s3"``, ``"gcs"``, ``"abfss"`` or ``"azure"``."""
        return None if self.bucket_uri is None else STORAGES[self.bucket_uri.partition("://")[0]]


def fetched(mirror: CloudMirrorConfig, model: str) -> str:
    """Have the model here: its folder, or its name if the mirror has extra files alone."""
    for extra in mirror.extra_files:
        copy(extra.bucket_uri, Path(extra.destination_path))
    if mirror.bucket_uri is None:
        return model
    name = hashlib.sha256(mirror.bucket_uri.encode()).hexdigest()[:32]
    folder = _cache() / name
    if not folder.exists():
        copy(mirror.bucket_uri, folder)
    return str(folder)


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "heliostat" / "models"


def copy(uri: str, to: Path) -> None:
    """Have a file or folder here, whole or not at all.

    Raises ``FileNotFoundError`` where nothing is there.
    """
    fsspec: Any = required("fsspec", "Models in a cloud's storage")
    files, path = fsspec.core.url_to_fs(uri)
    if not files.exists(path):
        raise FileNotFoundError(f"There is nothing at {uri}.")
    to.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{to.name}-", dir=to.parent))
    try:
        came = beside / to.name
        files.get(f"{path.rstrip('/')}/" if files.isdir(path) else path, str(came), recursive=True)
        if to.is_dir():
            shutil.copytree(came, to, dirs_exist_ok=True)
        else:
            came.rename(to)
    except FileExistsError:
        pass  # another replica of this machine was quicker
    except OSError:
        if not to.is_dir():
            raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)
