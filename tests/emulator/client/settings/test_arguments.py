"""Checks of an application's functions."""

from __future__ import annotations

import functools
import inspect

import pytest

from rocketmq_emulator.client.settings.arguments import (
    _is_plain_taking,
    check_plain_function,
    check_transaction_listener,
)
from rocketmq_emulator.errors.call_errors import BadArgument


class Callbacks:
    def none(self):
        pass

    def one(self, _result):
        pass

    def one_or_two(self, _result, _more=None):
        pass

    def __call__(self, _result):
        pass

    @staticmethod
    def static(_result):
        pass

    @classmethod
    def of_class(cls, _result):
        pass


async def an_async_one(_result):
    pass


def a_generator(_result):
    yield


async def an_async_generator(_result):
    yield


def only_by_name(*, _result):
    pass


def with_a_name(_result, *, _more=None):
    pass


def any_number(*_results):
    pass


@functools.wraps(an_async_one)
def wrapped(_result):
    pass


def two(_result, _more):
    pass


CALLBACKS = [
    *(lambda: None, lambda _result: None, lambda _result, _more=None: None, lambda *_all: None),
    *(two, only_by_name, with_a_name, any_number, wrapped, a_generator),
    *(an_async_one, an_async_generator, functools.partial(two, 1), functools.partial(two, 1, 2)),
    *(Callbacks().none, Callbacks().one, Callbacks().one_or_two, Callbacks()),
    *(Callbacks.static, Callbacks.of_class, Callbacks.one, [].append, dict, print),
]


def fits(callback) -> bool:
    try:
        inspect.signature(callback).bind("result")
    except TypeError:
        return False
    except ValueError:  # it has no signature
        return True
    return not inspect.iscoroutinefunction(callback)


@pytest.mark.parametrize("callback", CALLBACKS, ids=range(len(CALLBACKS)))
def test_a_callback_is_accepted_as_its_signature_says(callback) -> None:
    if fits(callback):
        check_plain_function("callback", callback, takes="result")
    else:
        assert not _is_plain_taking(callback, 1)
        with pytest.raises(BadArgument, match="callback is "):
            check_plain_function("callback", callback, takes="result")


@pytest.mark.parametrize(
    "callback", [lambda _result: None, Callbacks().one, Callbacks().one_or_two, Callbacks.static]
)
def test_the_signature_of_a_plain_callback_is_not_looked_up(callback) -> None:
    assert _is_plain_taking(callback, 1)


class ATransactionListener:
    def execute_local_transaction(self, message, argument):
        pass

    async def check_local_transaction(self, message):
        pass


class OneArgumentTooFew(ATransactionListener):
    def execute_local_transaction(self, message):
        pass


class OneTooMany(ATransactionListener):
    def check_local_transaction(self, message, argument):
        pass


class Yields(ATransactionListener):
    def check_local_transaction(self, message):
        yield


def test_the_methods_of_a_transaction_listener_may_be_plain_or_async() -> None:
    check_transaction_listener(ATransactionListener())


@pytest.mark.parametrize(
    ("listener", "words"),
    [
        (None, "not None"),
        (print, "listener is an object with execute_local_transaction(message, argument) and"),
        (ATransactionListener, "not the class ATransactionListener"),
        (OneArgumentTooFew(), "execute_local_transaction is a function of (message, argument)"),
        (OneTooMany(), "check_local_transaction is a function of (message)"),
        (Yields(), "check_local_transaction returns its state"),
    ],
)
def test_what_is_no_transaction_listener_is_refused_in_one_sentence(listener, words) -> None:
    with pytest.raises(BadArgument) as caught:
        check_transaction_listener(listener)
    assert words in str(caught.value)
