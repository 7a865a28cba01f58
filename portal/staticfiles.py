"""Static files of production: hashed, compressed, kept for ever by browsers."""

from typing import Any

from whitenoise.storage import CompressedManifestStaticFilesStorage

BUILT = "console/assets/"


class ConsoleStorage(CompressedManifestStaticFilesStorage):
    """Vite has hashed its files already. Hashed twice, a lazy island would import the entry under its other name and run it again."""

    def hashed_name(self, name: str, content: Any = None, filename: str | None = None) -> str:
        if name.startswith(BUILT):
            return name
        return str(super().hashed_name(name, content, filename))
