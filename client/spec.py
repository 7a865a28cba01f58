"""Reading a job file on this side: only as much as the command needs; every judgement is the portal's.

Numbers stay the text that was written (`max_price: 3.20` is three-twenty, not a binary fraction), a key given twice
is an error that names its line, and `--env` fills the variables that the file leaves open (`null`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from . import pack
from .errors import LocalFault
from .words import t

LARGEST = 1024 * 1024


class _Loader(yaml.SafeLoader):
    """Safe, floats as text, no repeated keys."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            name = str(key.value)
            if name in seen:
                raise LocalFault(
                    t("line {line}: {name} stands there twice.", line=key.start_mark.line + 1, name=name),
                    code="duplicate_key",
                )
            seen.add(name)
        return dict(super().construct_mapping(node, deep=deep))


def _as_written(loader: yaml.SafeLoader, node: yaml.Node) -> str:
    return str(node.value)


_Loader.add_constructor("tag:yaml.org,2002:float", _as_written)
_Loader.add_constructor("tag:yaml.org,2002:timestamp", _as_written)


def read_text(source: str) -> dict[str, Any]:
    """A YAML or JSON text with one document."""
    if len(source.encode()) > LARGEST:
        raise LocalFault(t("The job file is larger than 1 MiB."), code="spec_too_large")
    try:
        documents = [document for document in yaml.load_all(source, Loader=_Loader) if document is not None]
    except yaml.YAMLError as problem:
        raise LocalFault(t("The job file cannot be read: {problem}", problem=problem), code="unparseable") from problem
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise LocalFault(t("The job file must be one mapping, such as `run: echo hi`."), code="unparseable")
    return documents[0]


def read_file(path: Path) -> dict[str, Any]:
    try:
        return read_text(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as problem:
        raise LocalFault(
            t("{path} cannot be read: {problem}", path=path, problem=problem), code="unreadable"
        ) from problem


def prepared(spec: Mapping[str, Any], *, base: Path, envs: Sequence[str], project: str) -> dict[str, Any]:
    """The spec to send: variables and project filled in, `workdir` packed."""
    whole = pack.into(dict(spec), base)
    given = dict(_pair(word) for word in envs)
    if given:
        whole["envs"] = {**(whole.get("envs") or {}), **given}
    if project and not whole.get("project"):
        whole["project"] = project
    return json.loads(json.dumps(whole, default=str)) if whole else {}


def _pair(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not equals or not name:
        raise LocalFault(t("--env takes NAME=VALUE, not {word!r}.", word=word), code="bad_env")
    return name, value
