"""One program at a time in a process, and Ctrl-C whatever it is doing.

jaxlib's batched LAPACK (a factorisation under `vmap`) waits inside a thread of XLA's pool for tasks on that same pool.
Two such programs at once can fill the pool with threads that wait, and then neither ever ends
(`tests/upstream_deadlock.py` shows it in plain JAX). One alone cannot: so afterfit computes one program at a time in a
process, whoever asks for it from whichever thread, and uses other cores by other processes (`afterfit._sweeps`).
"""

from __future__ import annotations

import atexit
import concurrent.futures
import contextlib
import contextvars
import functools
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

import jax

__all__ = ["attend", "computing", "cut_off", "hearing", "in_a_thread", "interruptible", "still_wanted"]

_SECONDS_A_LOOK = 0.1  # between two looks at whether somebody asked to stop

# What a user may have set for a while with JAX's context managers, which are a thread's own.
_SETTINGS = (
    "enable_x64",
    "log_compiles",
    "disable_jit",
    "debug_nans",
    "debug_infs",
    "check_tracer_leaks",
    "default_matmul_precision",
    "default_device",
    "numpy_rank_promotion",
    "numpy_dtype_promotion",
)

T = TypeVar("T")


class _Here(threading.local):
    """Of this thread: how many `computing` it is inside of, and work that it left while that was still going on."""

    depth = 0
    left: Future | None = None


# Set once nobody waits any more for what is done here.
_left_alone: contextvars.ContextVar[threading.Event | None] = contextvars.ContextVar("left_alone", default=None)
_turn = threading.Lock()  # held while something is computed in this process
_here = _Here()


@contextlib.contextmanager
def hearing() -> Iterator[None]:
    """Ctrl-C is heard also where Python loses it: in a callback of the garbage collector, of which JAX has one.

    What such a callback raises is given to `sys.unraisablehook`, which prints it, and the program goes on: of presses
    while a sweep is planned, one in nine. Here Ctrl-C is then pressed again. May be nested.
    """
    if threading.current_thread() is not threading.main_thread() or sys.unraisablehook is _press_again:
        yield  # only the main thread hears signals
        return
    before, sys.unraisablehook = sys.unraisablehook, _press_again
    _hooks.append(before)
    try:
        yield
    finally:
        sys.unraisablehook = _hooks.pop()


_hooks: list[Callable[[Any], Any]] = []  # what was there before


def _press_again(lost: Any) -> None:
    if issubclass(lost.exc_type, KeyboardInterrupt):
        # A moment later, out of the callback; and as a signal, which also wakes a main thread that waits.
        press = functools.partial(signal.pthread_kill, threading.get_ident(), signal.SIGINT)
        threading.Timer(0.01, press).start()
    else:
        _hooks[-1](lost)


@contextlib.contextmanager
def computing(waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Compute in double precision, when nothing else of afterfit's is computed in this process.

    May be nested. `waiting` is called every now and then until it begins.
    """
    if not _here.depth:
        while not _turn.acquire(timeout=_SECONDS_A_LOOK):
            waiting()
    _here.depth += 1
    try:
        with hearing(), jax.enable_x64(True):
            yield
    finally:
        _here.depth -= 1
        if not _here.depth:
            left, _here.left = _here.left, None
            if left is None:
                _turn.release()
            else:  # it is the turn of what was left until that has ended
                left.add_done_callback(lambda _: _turn.release())


def attend(work: Callable[[], T], stop: threading.Event | None = None) -> T:
    """Do `work` in a thread of its own, inside this thread's `computing`, and wait for what it gives.

    Compiled code cannot be interrupted, but waiting for it can. On Ctrl-C, or once `stop` is set, KeyboardInterrupt is
    raised here at once; the thread goes on until the call it is in returns, or until it asks whether it is
    `still_wanted`, and nothing else is computed before.
    """
    assert _here.depth, "attend() is called inside of computing()"
    future: Future[Any] = Future()
    left_alone, context = threading.Event(), contextvars.copy_context()
    context.run(_left_alone.set, left_alone)
    settings = {name: getattr(jax.config, f"jax_{name}") for name in _SETTINGS}

    def do() -> None:
        _here.depth = 1  # in the turn of the thread that waits
        try:
            with contextlib.ExitStack() as set_here:
                for name, value in settings.items():
                    set_here.enter_context(getattr(jax, name)(value))
                future.set_result(context.run(work))
        except BaseException as error:
            future.set_exception(error)
        finally:
            _here.depth = 0

    in_a_thread(do)
    try:
        while True:
            try:
                # In short waits: a signal that another thread receives does not wake this one.
                return future.result(_SECONDS_A_LOOK)
            except TimeoutError:
                if future.done():  # just now, or with a TimeoutError of its own
                    return future.result()
                if stop is not None and stop.is_set():
                    raise KeyboardInterrupt from None
                still_wanted()  # this thread itself may be one that is waited for
    finally:
        if not future.done():
            left_alone.set()
            _here.left = future
            _left.append(future)


def interruptible(work: Callable[[], T]) -> T:
    """Do `work` inside of `computing`; in the main thread, which alone hears Ctrl-C, so that it is heard (`attend`)."""
    with computing():
        return attend(work) if threading.current_thread() is threading.main_thread() else work()


def still_wanted() -> None:
    """Raise KeyboardInterrupt in work that nobody waits for any more. What takes long asks now and then."""
    left_alone = _left_alone.get()
    if left_alone is not None and left_alone.is_set():
        raise KeyboardInterrupt


def in_a_thread(work: Callable[[], None]) -> None:
    """Have something done in a thread that has nothing to do, or in a new one; it does not keep the process alive.

    Threads are used again, because the C library gives each new one memory of its own, of which little comes back: a
    sweep of a hundred jobs would grow by hundreds of megabytes.
    """
    try:
        inbox = _idle.pop()
    except IndexError:
        inbox = queue.SimpleQueue()
        threading.Thread(target=_serve, args=(inbox,), daemon=True, name="afterfit").start()
    inbox.put(work)


def _serve(inbox: queue.SimpleQueue[Callable[[], None]]) -> None:
    while True:
        inbox.get()()
        _idle.append(inbox)


_idle: list[queue.SimpleQueue[Callable[[], None]]] = []  # the inboxes of threads that have nothing to do
_left: list[Future] = []  # all that was ever left in this process


def cut_off(code: int, surely: bool = False) -> None:
    """End the process here if something that was left goes on: it would crash as Python is taken down around it.

    `surely` for a process that was interrupted anywhere: what JAX began in the main thread may go on unseen.
    """
    if surely or concurrent.futures.wait(_left, timeout=0.5).not_done:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(code)


@atexit.register
def _at_exit() -> None:
    error = getattr(sys, "last_value", None)  # what ended the program, if nobody caught it
    cut_off(0 if error is None else 130 if isinstance(error, KeyboardInterrupt) else 1)
