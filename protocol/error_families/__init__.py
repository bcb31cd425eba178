"""Five families of errors, by what happened and what the user can do about it.

* ``Misuse``           the caller passed a wrong argument: nothing happened, correct the call;
* ``RefusedByServer``  a server answered with an error: the text has the reason;
* ``NobodyAnswered``   no server could be reached, or none answered in time: try again later, and
  ``definite`` says whether the first try surely did nothing;
* ``CannotDoHere``     this world, installation or machine cannot do it, or has no room for it now;
* ``DamagedData``      bytes, a journal or a store are damaged or incomplete.

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
    """Users import *kind* from ``rocketmq_emulator``: texts and pickles have this module name.

    It is set when the class is made, not when its name is imported, because an error may be
    raised before that.
    """
    kind.__module__ = PUBLIC_MODULE
    return kind


class Picklable:
    """An exception that is pickled with its attributes, whatever its ``__init__`` takes."""

    __slots__ = ()

    def __reduce__(self) -> str | tuple[Any, ...]:
        if isinstance(self, OSError):
            return super().__reduce__()  # which keeps file names
        assert isinstance(self, BaseException)
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__ or None  # type: ignore[attr-defined]


@public
class Misuse(Picklable, Exception):
    """An argument is wrong, or the call was made at a wrong time; nothing happened."""


@public
class RefusedByServer(Picklable, Exception):
    """A server answered with an error.  It did nothing, unless its code means something else."""


@public
class NobodyAnswered(Picklable, Exception):
    """No server was reached, or none answered in time; ``definite``: surely nothing happened."""

    definite = False


@public
class CannotDoHere(Picklable, Exception):
    """The world, the installation or the machine cannot do it, or has no room for it now."""


@public
class DamagedData(Picklable, Exception):
    """Bytes, a journal or a store are damaged, incomplete or gone; nothing was changed."""
