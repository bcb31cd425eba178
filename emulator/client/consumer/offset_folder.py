"""Where broadcasting consumers keep their offsets: small files that are replaced whole."""

from __future__ import annotations

from pathlib import Path


class OffsetFolder:
    """Reads and replaces files below *folder*, by their relative name."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder).expanduser()

    def read(self, name: str) -> bytes | None:
        try:
            return (self._folder / name).read_bytes()
        except FileNotFoundError:
            return None

    def replace(self, name: str, data: bytes) -> None:
        """A reader sees the old text or the new one, never a mixture."""
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(path.name + ".tmp")
        temporary.write_bytes(data)
        temporary.replace(path)


class OffsetsInMemory:
    """The same, for as long as this object lives."""

    def __init__(self) -> None:
        self._texts: dict[str, bytes] = {}

    def read(self, name: str) -> bytes | None:
        return self._texts.get(name)

    def replace(self, name: str, data: bytes) -> None:
        self._texts[name] = data
