"""The public boundary: what a user may import, what it costs, and that nothing else looks public."""

import ast
import importlib
import pkgutil
import subprocess
import sys
import types
from pathlib import Path

import pytest

import afterfit as af
from afterfit import papers


def modules_in(module: types.ModuleType) -> list[types.ModuleType]:
    """The public modules of a module, and theirs."""
    inner = [part for name in dir(module) if isinstance(part := getattr(module, name), types.ModuleType)]
    return [*inner, *(deeper for part in inner for deeper in modules_in(part))]


MODULES = modules_in(af)


def in_a_new_process(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=True)
    return done.stdout


def test_everything_that_is_listed_is_there_and_nothing_else():
    assert sorted(dir(af)) == sorted(af.__all__)
    for name in dir(af):
        assert getattr(af, name) is not None
    assert af.theory.bounds in MODULES
    for module in MODULES:
        assert sorted(dir(module)) == sorted(module.__all__)
        assert all(hasattr(module, name) for name in module.__all__)
    with pytest.raises(AttributeError, match="no_such_thing"):
        af.no_such_thing  # noqa: B018


def test_every_module_without_an_underscore_is_public_or_an_entry():
    public = {module.__name__ for module in MODULES}
    for module in pkgutil.walk_packages(af.__path__, "afterfit."):
        if not any(part.startswith("_") for part in module.name.split(".")):
            entry = module.name.startswith("afterfit.papers.")
            assert entry or module.name in public, module.name


def test_no_function_hides_a_module():
    """`af.diagnose` is the function, and there is no module of that name that it would hide."""
    for module in [af, *MODULES]:
        for name in dir(module):
            if not isinstance(getattr(module, name), types.ModuleType):
                with pytest.raises(ModuleNotFoundError):
                    importlib.import_module(f"{module.__name__}.{name}")


def test_our_own_papers_are_written_with_what_is_public():
    """Whoever writes a paper needs what ours needed."""
    files = sorted(Path(papers.__path__[0]).glob("*/*.py"))
    assert files
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            for imported in _imported(node):
                private = any(part.startswith("_") for part in imported.split("."))
                assert not private or not imported.startswith("afterfit") or imported.startswith("afterfit.papers."), (
                    file.name,
                    imported,
                )


def _imported(node: ast.AST) -> list[str]:
    """The full names of what a statement imports."""
    if not isinstance(node, ast.Import | ast.ImportFrom):
        return []
    origin = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
    return [f"{origin}{name.name}" for name in node.names]


def test_what_a_users_task_needs_is_public():
    assert af.tasks.Signature is not None
    assert issubclass(af.losses.Squared, af.losses.Loss)


@pytest.mark.parametrize(
    ("program", "loaded"),
    [
        ("import afterfit", False),
        ("import afterfit; dir(afterfit); afterfit.SpecError; afterfit.diagnose; afterfit.read_log", False),
        ("import afterfit; afterfit.papers.entries()", False),
        ("import afterfit._cli", False),
        ("import afterfit; afterfit.train", True),
    ],
)
def test_jax_is_loaded_only_when_something_is_trained(program, loaded):
    heavy = ("jax", "matplotlib", "scipy", "xarray", "cvxpy", "pyarrow")
    said = in_a_new_process(f"{program}\nimport sys\nprint(*(name for name in {heavy} if name in sys.modules))")
    assert ("jax" in said.split()) == loaded, said
    assert loaded or not said.split(), said


def test_an_experiment_loads_what_it_needs_by_itself():
    assert in_a_new_process("import afterfit as af; print(af.penalties.L2(0.5).strength)") == "0.5\n"
