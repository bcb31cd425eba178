"""Five families of errors, by what happened and what its reader can do about it.

* ``Misuse``           the caller handed over something wrong: nothing happened, correct the call;
* ``RefusedByServer``  a server answered with an error: the text has its reason;
* ``NobodyAnswered``   no server could be reached, or none answered in time: try again later, and
  ``definite`` says whether the first try surely did nothing;
* ``CannotDoHere``     this world, installation or machine cannot do it, or has no room for it now;
* ``DamagedData``      bytes, a journal or a store are not what they should be.

An exception of this project belongs to one of them, or is on the list in
``tests/test_error_families.py`` with a reason.  Every folder may import this one, so it has a
folder of its own, which imports nothing.
"""

from __future__ import annotations

import copyreg
from typing import Any, TypeVar

PUBLIC_MODULE = "rocketmq_emulator"

K = TypeVar("K", bound=type[BaseException])


def public(kind: K) -> K:
    """Users import *kind* from ``rocketmq_emulator``: texts and pickles name it there.

    Set where a class is made and not where its name is looked up, because an error may be
    raised before anybody has looked for its name.
    """
    kind.__module__ = PUBLIC_MODULE
    return kind


class Picklable:
    """Goes from process to process, whatever its ``__init__`` takes; with its attributes."""

    __slots__ = ()

    def __reduce__(self) -> str | tuple[Any, ...]:
        if isinstance(self, OSError):
            return super().__reduce__()  # which knows of file names
        assert isinstance(self, BaseException)
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__ or None  # type: ignore[attr-defined]


@public
class Misuse(Picklable, Exception):
    """What the caller handed over is wrong, or it was not the time for it; nothing happened."""


@public
class RefusedByServer(Picklable, Exception):
    """A server answered with an error.  It did nothing, unless its code means something else."""


@public
class NobodyAnswered(Picklable, Exception):
    """No server to be reached, or no answer in time; ``definite``: surely nothing happened."""

    definite = False


@public
class CannotDoHere(Picklable, Exception):
    """The world, the installation or the machine cannot do it, or has no room for it now."""


@public
class DamagedData(Picklable, Exception):
    """Bytes, a journal or a store are damaged, incomplete or gone; nothing was changed."""
