"""The guard: first signal remembered, then delivered; second one takes its course."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from armtrain.runtime.signals import StopGuard


def test_signal_is_delivered_when_the_guard_ends() -> None:
    reached = []

    def guarded() -> None:
        with StopGuard() as guard:
            os.kill(os.getpid(), signal.SIGINT)
            reached.append(guard.requested)

    with pytest.raises(KeyboardInterrupt):
        guarded()
    assert reached == [True]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_second_signal_interrupts_at_once() -> None:
    reached = []

    def guarded() -> None:
        with StopGuard():
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
            reached.append(True)

    with pytest.raises(KeyboardInterrupt):
        guarded()
    assert reached == []


def test_two_kinds_together_are_one_wish_to_stop(capfd: pytest.CaptureFixture[str]) -> None:
    """Both wait when Python looks, and none is dropped with a remark; the first decides."""
    reached = []
    kinds = {signal.SIGINT, signal.SIGTERM}

    def guarded() -> None:
        with StopGuard() as guard:
            signal.pthread_sigmask(signal.SIG_BLOCK, kinds)
            for kind in kinds:
                os.kill(os.getpid(), kind)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, kinds)
            reached.append(guard.requested)

    with pytest.raises(KeyboardInterrupt):
        guarded()
    assert reached == [True]
    assert "race condition" not in capfd.readouterr().err
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_termination_reaches_the_users_handler() -> None:
    received = []
    previous = signal.signal(signal.SIGTERM, lambda number, frame: received.append(number))
    try:
        with StopGuard() as guard:
            os.kill(os.getpid(), signal.SIGTERM)
            assert guard.requested
            assert received == []
        assert received == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, previous)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_is_ignored_stays_ignored(number: signal.Signals) -> None:
    previous = signal.signal(number, signal.SIG_IGN)
    try:
        with StopGuard() as guard:
            os.kill(os.getpid(), number)
            assert not guard.requested
            assert signal.getsignal(number) is signal.SIG_IGN
        assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, previous)


def test_error_inside_wins() -> None:
    def guarded() -> None:
        with StopGuard():
            os.kill(os.getpid(), signal.SIGINT)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        guarded()


def test_other_threads_are_left_alone() -> None:
    before = signal.getsignal(signal.SIGINT)
    seen = []

    def work() -> None:
        with StopGuard() as guard:
            seen.append((guard.requested, signal.getsignal(signal.SIGINT) is before))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(False, True)]
