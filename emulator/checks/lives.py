"""A message's life as the journal has it: the entries that a violation about it cites."""

from __future__ import annotations

from emulator.checks.checker import key_of
from emulator.checks.progress import Progress
from emulator.checks.queue_records import QueueReading
from emulator.journal import EntryKey

CITED_MAX = 12


def life_of(progress: Progress, reading: QueueReading, offset: int) -> tuple[EntryKey, ...]:
    """Where the message at *offset* was stored, acknowledged, given out and passed over.

    In the order of time, at most ``CITED_MAX``: the copy in which it waited before, to whom it
    was given without being finished, where it failed and was sent back, the first commit that
    passed it, and the last pull of its queue, and the last that was refused since it was stored.
    """
    records = reading.records
    found = [*records.life_of(offset)]
    key = reading.failed.get(offset)
    if key is not None:
        group = reading.reader.partition("@")[0]
        failure = progress.messages.chains.failure(key, group, reading.queue, offset)
        if failure is not None:
            found.append(failure.failed)
            if failure.sent_back is not None:
                found.append(failure.sent_back)
    found += [key_of(entry) for entry in reading.given_entries(offset)]
    hold = reading.holds.get(reading.owner)
    if hold is not None and hold.claimed is not None:
        found.append(hold.claimed)
    found += [entry for passed_to, entry in reading.passes if passed_to > offset][:1]
    if reading.last_pull is not None:
        found.append(key_of(reading.last_pull))
    refused = reading.refused_pull
    if refused is not None and refused.mono_us >= (records.stored_us(offset) or 0):
        found.append(key_of(refused))
    return tuple(sorted(set(found)))[:CITED_MAX]
