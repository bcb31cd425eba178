"""What the frames under way between two connections of one process mean.

Where both ends of a stream are in one process, the receiver of a frame would decode the
very command that its sender has encoded.  So the sender leaves the commands of a write at
its transport's ``values``, under the bytes that were written, and who receives exactly these
bytes takes them instead of reading.  The bytes are all that travels: what is split, joined,
changed or lost on the way finds no value, and is read as ever.

A command is left only if reading its frame gives an equal one in every release; it then
belongs to the receiver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from emulator.net.transport import Values
    from protocol.command import RemotingCommand

VALUES_MAX = 1_000  # of writes that were lost, too: then all are forgotten, and read as ever
WRITE_BYTES_MAX = 16 * 1024  # ours: longer ones are rare, and take memory while they wait


def leave(values: Values, data: bytes, commands: list[RemotingCommand]) -> None:
    """*data* is about to be sent, and its frames mean *commands*."""
    if len(data) > WRITE_BYTES_MAX or not all(map(_is_plain, commands)):
        return
    if len(values) >= VALUES_MAX:
        values.clear()
    values[data] = commands


def _is_plain(command: RemotingCommand) -> bool:
    """Is it read as it was written?  Releases differ in what they make of odd characters."""
    remark = command.remark
    return (
        type(command.body) is bytes
        and command.opaque is not None
        and (remark is None or remark.isascii())
        and bytes(command.ext).isascii()
    )
