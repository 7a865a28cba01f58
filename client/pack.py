"""`workdir`: a folder of this machine, packed for /job.

The spec's `workdir` names a local folder; the portal never sees the path. The folder becomes one tar file,
gzip-compressed, handed in as an input of the job with its content, and a line before `setup` unpacks it. Above 100
MiB it is refused: such data belongs into an input with an address. Packing is the same for the same files (sorted, no
owners, no times of the archive itself), so a repeated quote matches.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import tarfile
from pathlib import Path
from typing import Any

from .errors import LocalFault
from .words import t

LARGEST = 100 * 1024 * 1024
ARCHIVE = "/job/.idlewild-workdir.tar.gz"


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
            if total > LARGEST:
                raise LocalFault(
                    t(
                        "workdir {folder} holds more than 100 MiB; give large data as an input with a url.",
                        folder=folder,
                    ),
                    code="workdir_too_large",
                )
            tar.add(path, arcname=str(path.relative_to(folder)), recursive=False, filter=_plain)
    return gzip.compress(raw.getvalue(), mtime=0)


def _plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info


def into(spec: dict[str, Any], base: Path) -> dict[str, Any]:
    """The spec with `workdir` turned into an input and a line of `setup`; unchanged if there is none."""
    folder = spec.get("workdir")
    if not folder:
        return spec
    body = archive((base / str(folder)).resolve())
    rest = {name: value for name, value in spec.items() if name != "workdir"}
    given = {
        "path": ARCHIVE,
        "content": base64.b64encode(body).decode(),
        "sha256": hashlib.sha256(body).hexdigest(),
        "encoding": "base64",
    }
    unpack = f"tar -xzf {ARCHIVE} -C /job && rm {ARCHIVE}"
    rest["inputs"] = [given, *(rest.get("inputs") or [])]
    rest["setup"] = "\n".join([unpack, *([str(rest["setup"])] if rest.get("setup") else [])])
    return rest
