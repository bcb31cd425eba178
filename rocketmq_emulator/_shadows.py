"""Are ``emulator`` and ``protocol`` ours?

These are names that another file or package may well have: a ``protocol.py`` beside the
program that is started comes first on Python's path, and half of ours would be loaded from
there, with errors that say nothing.  So the first import looks, and names the file.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

OURS = ("emulator", "protocol")


def check() -> None:
    """Raises ``ImportError`` when Python finds another file or package of one of our names."""
    home = Path(__file__).resolve().parent.parent
    for name in OURS:
        found = _origin(name)
        if found is None:
            raise ImportError(
                f"rocketmq_emulator needs its package {name!r}, which is not in {home}: "
                f"install rocketmq-emulator again",
                name=name,
            )
        if found.resolve().parent != home / name:
            raise ImportError(
                f"{_shown(found)} shadows the package {name!r} of rocketmq_emulator, which is in "
                f"{home / name}: rename it, or start Python where it is not on the path",
                name=name,
                path=str(found),
            )


def _origin(name: str) -> Path | None:
    try:
        spec = find_spec(name)
    except ValueError:  # a module of that name was put into sys.modules without a spec
        return Path(f"a module {name!r} without a file")
    if spec is None:
        return None
    if spec.origin is None:  # a folder without __init__.py
        return Path(next(iter(spec.submodule_search_locations or ()), name)) / "__init__.py"
    return Path(spec.origin)


def _shown(found: Path) -> Path:
    return found.parent if found.name == "__init__.py" else found
