"""The vault: secrets of tenants at rest. The only module that imports cryptography (contract 12).

``encrypt`` binds a secret to what it belongs to (`about`, such as ``secret:org_…:NAME``): a ciphertext copied to another row does not open. Keys come from
IDLEWILD_VAULT_KEYS (``id:key,…``): the first encrypts, all decrypt. To change keys, put a new one in front, run ``manage.py rotate_secrets``, drop the old.
"""

import base64
import hashlib
import os
from functools import cache

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

NONCE_BYTES = 12


class Unreadable(Exception):
    """The text is not ours, belongs to something else, or its key is gone."""


@cache
def _keys(text: str) -> dict[str, AESGCM]:
    keys: dict[str, AESGCM] = {}
    for part in text.split(","):
        name, colon, key = part.strip().partition(":")
        if not colon or not name or len(key) < 32:
            raise ImproperlyConfigured(
                "IDLEWILD_VAULT_KEYS takes id:key,… with keys of at least 32 characters, for example k1:$(openssl rand -hex 32)"
            )
        keys[name] = AESGCM(hashlib.sha256(key.encode()).digest())
    return keys


def encrypt(plain: str, *, about: str) -> str:
    """`plain` as text to store, under the first key: ``key id:base64(nonce + ciphertext)``."""
    keys = _keys(settings.IDLEWILD_VAULT_KEYS)
    name = next(iter(keys))
    nonce = os.urandom(NONCE_BYTES)
    return name + ":" + base64.b64encode(nonce + keys[name].encrypt(nonce, plain.encode(), about.encode())).decode()


def decrypt(stored: str, *, about: str) -> str:
    """What :func:`encrypt` was given for the same `about`."""
    name, _, body = stored.partition(":")
    key = _keys(settings.IDLEWILD_VAULT_KEYS).get(name)
    if key is None:
        raise Unreadable(f"no key named {name!r} in IDLEWILD_VAULT_KEYS")
    try:
        raw = base64.b64decode(body, validate=True)
        return key.decrypt(raw[:NONCE_BYTES], raw[NONCE_BYTES:], about.encode()).decode()
    except (ValueError, InvalidTag):
        raise Unreadable("the stored secret does not open") from None


def is_current(stored: str) -> bool:
    """Was it made with the first key?"""
    return stored.partition(":")[0] == next(iter(_keys(settings.IDLEWILD_VAULT_KEYS)))


def rotate(stored: str, *, about: str) -> str:
    """The same secret under the first key."""
    return stored if is_current(stored) else encrypt(decrypt(stored, about=about), about=about)
