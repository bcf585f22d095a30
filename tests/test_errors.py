"""Errors: one family, caught by one name."""

import importlib
import pkgutil

import afterfit
from afterfit import AfterfitError
from afterfit._base.errors import RunFailed, SpecError, error_in_words


def test_every_error_is_of_the_family():
    """Whatever exception a module defines for others; those that no `except Exception` is to catch are signals."""
    found = set()
    for module in pkgutil.walk_packages(afterfit.__path__, "afterfit."):
        if module.name.rpartition(".")[2] == "__main__":
            continue
        for name, thing in vars(importlib.import_module(module.name)).items():
            error = isinstance(thing, type) and issubclass(thing, Exception) and thing.__module__.startswith("afterfit")
            if error and not name.startswith("_"):
                found.add(thing)
    assert {SpecError, RunFailed} < found
    assert [error for error in found if not issubclass(error, AfterfitError)] == []


def test_an_error_of_ours_is_a_sentence_and_any_other_is_named():
    assert error_in_words(SpecError("lower n.")) == "lower n."
    assert error_in_words(RuntimeError("thirteen")) == "RuntimeError: thirteen"
    assert error_in_words(MemoryError()) == "MemoryError"
