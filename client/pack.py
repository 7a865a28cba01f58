"""`workdir`: a folder of this machine, packed for /job.

The spec's `workdir` names a local folder; the portal never sees the path. The folder becomes one tar file,
gzip-compressed, that stands in the spec itself, so it is bounded by the spec's 1 MiB; larger data belongs into an
input with an address. Packing the same files gives the same bytes (sorted, no owners, no time of the packing), so a
quote and its job have the same spec.
"""

from __future__ import annotations

import base64
import gzip
import io
import tarfile
from pathlib import Path
from typing import Any

from .errors import LocalFault
from .words import t

LARGEST_UNPACKED = 100 * 1024 * 1024
LARGEST_PACKED = 700 * 1024
PREFIX = "data:application/gzip;base64,"
STORED = "artefact://"


def archive(folder: Path) -> bytes:
    """The folder as tar.gz; symbolic links stay links, special files are refused."""
    if not folder.is_dir():
        raise LocalFault(t("workdir {folder} is not a folder.", folder=folder), code="workdir_missing")
    total = 0
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(folder.rglob("*")):
            if not (path.is_symlink() or path.is_file() or path.is_dir()):
                raise LocalFault(
                    t("{path} is neither a file nor a folder; leave it out of workdir.", path=path),
                    code="workdir_special",
                )
            if path.is_file() and not path.is_symlink():
                total += path.stat().st_size
            if total > LARGEST_UNPACKED:
                raise _too_large(folder)
            tar.add(path, arcname=str(path.relative_to(folder)), recursive=False, filter=_plain)
    packed = gzip.compress(raw.getvalue(), mtime=0)
    if len(packed) > LARGEST_PACKED:
        raise _too_large(folder)
    return packed


def _too_large(folder: Path) -> LocalFault:
    return LocalFault(
        t("workdir {folder} is more than 700 KiB when packed; give large data as an input with a url.", folder=folder),
        code="workdir_too_large",
    )


def _plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info


def into(spec: dict[str, Any], base: Path) -> dict[str, Any]:
    """The spec with the folder of `workdir` packed into it; unchanged if there is none or it is packed already."""
    folder = spec.get("workdir")
    if not folder or str(folder).startswith((PREFIX, STORED)):
        return spec
    packed = archive((base / str(folder)).resolve())
    return {**spec, "workdir": PREFIX + base64.b64encode(packed).decode()}
