"""The same name means the same computation: code, data and files count, and no old compiled program answers."""

import dataclasses
import functools
import importlib
import json
import logging
import subprocess
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import afterfit as af
from afterfit import Experiment, SpecError, Store
from afterfit._base.definitions import Untold, digest
from afterfit.theory._instance import posed
from afterfit.theory._landscape import hessian_rank

EXPERIMENT = Experiment(
    task=af.tasks.SparseRecovery(n=8, sparsity=2, N=6),
    model=af.models.Linear(),
    penalty=af.penalties.L2(0.1),
    dynamics=af.dynamics.GradientDescent(0.1, 200),
    init=af.inits.Gaussian(0.5),
    observations=10,
)
MODULE = """
import functools
import jax
import jax.numpy as jnp
import numpy as np
import afterfit as af
import helpers

RATE = 2.0
TABLE = np.array([1.0, 2.0])
NESTED = {"factors": [1.0, 1.0]}

class Config:
    members = 1.0  # a name that our own families have too

def square(x):
    # the square of x
    return x**2

def unrelated(x):
    return x + 1

def power(p):
    def raised(x):
        return x**p
    return raised

fourth = power(4)
tripled = functools.partial(jnp.multiply, 3.0)

@jax.jit
def jitted(x):
    return x / 5

class Base(af.penalties.Penalty):
    share = 0.5

    def size(self, leaf):
        return jnp.sum(square(leaf))

class Mine(Base):
    width: float = 0.1
    half = property(lambda self: 0.25)

    def value(self, params, times=7.0):
        import late
        total = self.share * RATE * TABLE[0] * self.half * times + NESTED["factors"][0] * Config.members
        sizes = (self.size(leaf) + jnp.sum(tripled(fourth(jitted(leaf)))) for leaf in jax.tree.leaves(params))
        return total * sum(sizes) + helpers.shift(0.0) + late.last(0.0)
"""
HELPERS = "OFFSET = 11.0\ndef shift(x):\n    return x + OFFSET\ndef aside(x):\n    return x + 13.0\n"
LATE = "def last(x):\n    return x + 17.0\n"


def write(folder, module=MODULE, helpers=HELPERS, late=LATE):
    for name, source in (("mylab", module), ("helpers", helpers), ("late", late)):
        (folder / f"{name}.py").write_text(source)


@pytest.fixture
def load(tmp_path, monkeypatch):
    """A function that writes a user's modules and gives his class, as a new process would see it."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # a file of the same size and second would not be read again
    before = dict(af.penalties.Penalty.members)

    def load(**sources):
        write(tmp_path, **sources)
        for name in ("mylab", "helpers", "late"):
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        return importlib.import_module("mylab")

    yield load
    for name in ("mylab", "helpers", "late"):
        sys.modules.pop(name, None)
    af.penalties.Penalty.members.clear()
    af.penalties.Penalty.members.update(before)


def with_penalty(penalty) -> Experiment:
    return dataclasses.replace(EXPERIMENT, penalty=penalty)


# ----------------------------------------------------------------------------------------------------------- code

EDITS = {
    "a method": {"module": MODULE.replace("return total *", "return 2 * total *")},
    "a base's method": {"module": MODULE.replace("jnp.sum(square(leaf))", "jnp.mean(square(leaf))")},
    "a function it calls": {"module": MODULE.replace("x**2", "x**3")},
    "a function under jit": {"module": MODULE.replace("x / 5", "x / 6")},
    "a closure": {"module": MODULE.replace("power(4)", "power(5)")},
    "an argument held": {"module": MODULE.replace("jnp.multiply, 3.0", "jnp.multiply, 4.0")},
    "a default": {"module": MODULE.replace("times=7.0", "times=8.0")},
    "a number it reads": {"module": MODULE.replace("RATE = 2.0", "RATE = 3.0")},
    "an array it reads": {"module": MODULE.replace("[1.0, 2.0]", "[1.0, 3.0]")},
    "the type of an array": {"module": MODULE.replace("np.array([1.0, 2.0])", "np.array([1.0, 2.0], np.float32)")},
    "a table it reads": {"module": MODULE.replace('"factors": [1.0, 1.0]', '"factors": [1.0, 2.0]')},
    "a base's attribute": {"module": MODULE.replace("share = 0.5", "share = 0.6")},
    "an attribute of a class it reads": {"module": MODULE.replace("members = 1.0", "members = 2.0")},
    "a lambda in it": {"module": MODULE.replace("lambda self: 0.25", "lambda self: 0.35")},
    "a default of a field": {"module": MODULE.replace("width: float = 0.1", "width: float = 0.2")},
    "another module's function": {"helpers": HELPERS.replace("x + OFFSET", "x - OFFSET")},
    "another module's number": {"helpers": HELPERS.replace("11.0", "12.0")},
    "a module imported in it": {"late": LATE.replace("17.0", "18.0")},
}
NO_EDITS = {
    "nothing": {},
    "a comment": {"module": MODULE.replace("# the square of x", "# x times x, and much more to say about it")},
    "empty lines": {"module": "\n\n\n" + MODULE},
    "a function it does not call": {"module": MODULE.replace("x + 1", "x + 2")},
    "another module's function that it does not call": {"helpers": HELPERS.replace("13.0", "14.0")},
}


@pytest.mark.parametrize("edit", EDITS)
def test_what_a_class_computes_is_in_its_name(edit, load):
    first, again = (with_penalty(load().Mine(1.0, width=0.3)) for _ in range(2))
    before, spec = again.id, again.to_dict()
    assert first.id == before
    after = with_penalty(load(**EDITS[edit]).Mine(1.0, width=0.3))
    assert after.id != before
    with pytest.raises(SpecError, match=r"penalty mylab\.Mine was changed since this was written"):
        Experiment.from_dict(spec)


@pytest.mark.parametrize("edit", NO_EDITS)
def test_what_changes_nothing_changes_no_name(edit, load):
    before = with_penalty(load().Mine(1.0))
    after = with_penalty(load(**NO_EDITS[edit]).Mine(1.0))
    assert after.id == before.id
    read = Experiment.from_dict(json.loads(str(before)))
    assert type(read.penalty) is type(after.penalty)
    assert read.id == before.id


def test_an_edited_penalty_is_computed_again(load, tmp_path):
    def ends(module):
        experiment = with_penalty(module.Mine(0.1))
        asked = af.sweep(experiment, {"penalty.strength": [0.01, 0.02]}, store=str(tmp_path / "store"))
        missing = len(asked.missing)
        return missing, asked.run(progress=False).dataset["final_norm_l2"].values.ravel()

    missing, first = ends(load())
    assert missing == 2
    missing, same = ends(load())
    assert missing == 0
    np.testing.assert_array_equal(same, first)
    missing, edited = ends(load(module=MODULE.replace("return total *", "return 100 * total *")))
    assert missing == 2
    assert np.all(edited < 0.9 * first)


def test_a_value_changed_between_two_questions_is_seen(load):
    module = load()
    experiment = with_penalty(module.Mine(1.0))
    before = experiment.id
    for change, back in (
        (lambda: setattr(module, "RATE", 5.0), lambda: setattr(module, "RATE", 2.0)),
        (lambda: setattr(module.Mine, "share", 9.0), lambda: delattr(module.Mine, "share")),
        (lambda: module.TABLE.__setitem__(0, 9.0), lambda: module.TABLE.__setitem__(0, 1.0)),
        (lambda: module.NESTED["factors"].append(9.0), lambda: module.NESTED["factors"].pop()),
    ):
        change()
        assert experiment.id != before
        back()
        assert experiment.id == before


def test_libraries_count_by_their_version(monkeypatch):
    from afterfit._base import definitions

    def draws():
        return pytest.approx(1.0)

    before = digest(draws)
    monkeypatch.setitem(definitions._libraries, "pytest", "pytest 999")
    assert digest(draws) != before


# ---------------------------------------------------------------------------------------------------------- names


class L2(af.penalties.Penalty):
    """Not weight decay: with the name of a built-in."""

    def value(self, params):
        return sum(jnp.sum(leaf**4) for leaf in jax.tree.leaves(params))


def test_a_class_of_a_built_ins_name_is_another_one(tmp_path):
    ours, theirs = EXPERIMENT, with_penalty(L2(0.1))
    assert theirs.to_dict()["penalty"]["kind"] == f"{__name__}.L2"
    assert ours.to_dict()["penalty"] == {"kind": "L2", "strength": 0.1}
    assert ours.id != theirs.id
    assert type(af.penalties.Penalty.from_dict({"kind": "L2", "strength": 1})) is af.penalties.L2
    assert type(af.penalties.Penalty.from_dict({"kind": f"{__name__}.L2", "strength": 1})) is L2
    assert type(theirs.set({"penalty.kind": "L2", "penalty.strength": 1}).penalty) is af.penalties.L2
    assert type(theirs.set({"penalty.strength": 1}).penalty) is L2
    alone = af.run_experiment(ours, progress=False).curves["norm_l2"].values[-1]
    swept = af.sweep(ours, {"penalty.strength": [0.1, 0.2]}, store=str(tmp_path / "store")).run(progress=False)
    assert swept.dataset["final_norm_l2"].values[0, 0] == pytest.approx(alone, rel=1e-9)


def test_theory_takes_no_class_for_another_by_its_name():
    assert posed(EXPERIMENT).decay == 0.1
    assert posed(with_penalty(L2(0.1))).decay == 0.0


def make(power):
    class Made(af.penalties.Penalty):
        def value(self, params):
            return jnp.sum(params["weights"] ** power)

    return Made


def test_classes_made_in_a_function_do_not_take_each_others_place(tmp_path):
    two, four = (with_penalty(make(power)(0.1)) for power in (2, 4))
    assert two.id != four.id
    assert two.id == with_penalty(make(2)(0.1)).id
    assert not any("Made" in kind for kind in af.penalties.Penalty.members)
    with pytest.raises(SpecError, match="was defined in a function"):
        Experiment.from_dict(two.to_dict())
    ends = []
    for experiment in (two, four):
        asked = af.sweep(experiment, {"penalty.strength": [1.0, 2.0]}, store=str(tmp_path / "store"))
        ends.append(asked.run(progress=False).dataset["final_penalty"].values)
    assert np.all(ends[0] != ends[1])


def test_a_cell_of_a_notebook_can_be_run_again():
    def run(cell, number):
        scope = {"__name__": "notebook", "Penalty": af.penalties.Penalty}
        exec(compile(cell, f"<ipython-input-{number}-0123456789ab>", "exec"), scope)  # noqa: S102
        return with_penalty(scope["Mine"](0.1))

    cell = "class Mine(Penalty):\n    def value(self, params):\n        return params['weights'] @ params['weights']"
    try:
        first, again, edited = run(cell, 3), run("\n" + cell, 5), run(cell.replace("return", "return 2 *"), 7)
        assert first.id == again.id != edited.id
        assert type(Experiment.from_dict(edited.to_dict()).penalty) is type(edited.penalty)
        with pytest.raises(SpecError, match="was changed since"):
            Experiment.from_dict(first.to_dict())
    finally:
        del af.penalties.Penalty.members["notebook.Mine"]


def test_names_that_mean_something_else_are_refused():
    with pytest.raises(SpecError, match=r"cannot be called L2: so is afterfit\.penalties\.L2"):
        type("L2", (af.penalties.Penalty,), {"__module__": "afterfit.elsewhere", "__qualname__": "L2"})
    for name in ("kind", "code", "meaning"):
        with pytest.raises(SpecError, match=f"has a setting '{name}'.*rename"):
            type("Odd", (af.penalties.Penalty,), {"__annotations__": {name: str}})


def test_the_meaning_of_our_own_nouns_is_in_the_name(monkeypatch):
    class Decay(af.penalties.L2):
        pass

    before, spec, mine = EXPERIMENT.id, EXPERIMENT.to_dict(), with_penalty(Decay(0.1))
    own = mine.id
    monkeypatch.setattr(af.penalties.L2, "meaning", 2)
    after = dataclasses.replace(EXPERIMENT, penalty=EXPERIMENT.penalty.replace())  # as a new process would make it
    assert after.id != before
    assert mine.id != own, "nor is a class what it was whose base has changed"
    said = after.to_dict()
    assert Experiment.from_dict(said).id == after.id
    assert Experiment.from_dict(spec).id == after.id, "what does not say a meaning has that of today"
    monkeypatch.setattr(af.penalties.L2, "meaning", 3)
    with pytest.raises(SpecError, match=r"another version of afterfit.*meaning 2, here 3"):
        Experiment.from_dict(said)
    monkeypatch.undo()
    monkeypatch.setattr(Experiment, "meaning", 2)
    assert dataclasses.replace(EXPERIMENT).id != before


def test_what_was_stored_before_is_still_read(load, tmp_path):
    # Kinds were written without their module, and without a digest.
    module = load()
    run = af.run_experiment(with_penalty(module.Mine(0.1)), progress=False)
    spec = json.loads(json.dumps(run.spec))
    spec["penalty"] = {"kind": "Mine", "strength": 0.1, "width": 0.1}
    old = dataclasses.replace(run, spec=spec, id="0123456789abcdef", origin=None)
    store = Store(tmp_path / "store")
    store.publish(old.id, old.files())
    read = store.load(old.id)
    assert read.spec == spec
    assert read.plot().axes
    assert store.query('SELECT "penalty.kind" AS kind FROM runs').to_pylist() == [{"kind": "Mine"}]
    assert Experiment.from_dict(read.spec).id == with_penalty(module.Mine(0.1)).id


# ------------------------------------------------------------------------------------------------- without a name

TYPED = """
import numpy as np, jax.numpy as jnp, afterfit as af
class Mine(af.penalties.Penalty):
    def value(self, params): return jnp.sum(params["weights"] ** 2)
def f(params, x): return params @ x
base = af.Experiment(af.tasks.SparseRecovery(8, 2, 6), af.models.Linear(), af.dynamics.GradientDescent(0.1, 20),
                     Mine(0.1), af.inits.Gaussian(1.0), observations=5)
own = af.Experiment(base.task, af.models.Function(f, np.ones(8)), base.dynamics)
for experiment in (base, own):
    assert af.run_experiment(experiment, progress=False).id == ""
    try:
        af.sweep(experiment, {"dynamics.lr": [0.1, 0.2]}, store="nowhere")
    except af.SpecError as error:
        print(error)
"""


def test_a_class_typed_at_a_prompt_runs_and_has_no_name(tmp_path):
    done = subprocess.run([sys.executable, "-c", TYPED], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    penalty, function = done.stdout.splitlines()
    assert "__main__.Mine: Mine.value was typed at a prompt" in penalty
    assert "models.Function: f was typed at a prompt" in function
    assert "can be run (af.train) and saved (run.save) but not stored" in penalty
    assert not list(tmp_path.iterdir())


LOCK = threading.Lock()


def locked(params, x):
    with LOCK:
        return params @ x


def test_what_has_no_name_says_why(tmp_path):
    whys = {"a lambda has no name": lambda p, x: p @ x, "locked → LOCK → a lock: what is in it cannot be told": locked}
    for why, function in whys.items():
        experiment = of_function(function, np.ones(8))
        assert experiment.to_dict()["model"]["function_code"] is None
        with pytest.raises(SpecError, match=why):
            af.sweep(experiment, {"dynamics.lr": [0.1, 0.2]}, store=str(tmp_path / "store"))
    with pytest.raises(Untold, match="a lambda"):
        digest(lambda: 1)


# ------------------------------------------------------------------------------------------------------ functions

SCALE = 1.0
MEMORY = {}


def scaled(params, x):
    return SCALE * jnp.sum(params["w"] * x)


def forgetful(params, x):
    MEMORY[len(MEMORY)] = 1
    return jnp.sum(params["w"] * x)


def of_function(function, initial=None) -> Experiment:
    model = af.models.Function(function, {"w": np.full(8, 0.1)} if initial is None else initial)
    return dataclasses.replace(EXPERIMENT, model=model, init=af.inits.Own())


def test_a_function_in_a_file_has_a_name_and_can_be_swept(tmp_path, monkeypatch):
    experiment = of_function(scaled)
    before = experiment.id
    assert of_function(scaled).id == before
    assert of_function(scaled, {"w": np.full(8, 0.2)}).id != before
    assert of_function(scaled, {"w": np.full(8, 0.1, np.float32)}).id != before
    asked = af.sweep(experiment, {"penalty.strength": [0.1, 1.0]}, store=str(tmp_path / "store")).run(progress=False)
    assert asked.missing == []
    monkeypatch.setitem(globals(), "SCALE", 2.0)
    assert experiment.id != before
    assert len(asked.missing) == 2, "the same sweep, of another function by now"
    first = asked.store.load(before).curves["test_error"].values[-1]
    asked.run(progress=False)
    assert asked.store.load(experiment.id).curves["test_error"].values[-1] != first


def test_a_function_that_changes_itself_ends_the_sweep(tmp_path):
    asked = af.sweep(of_function(forgetful), {"penalty.strength": [0.1, 1.0]}, store=str(tmp_path / "store"))
    with pytest.raises(SpecError, match="was not asked for: what a class or function"):
        asked.run(progress=False)


SENT = """
import pathlib, sys
import cloudpickle, jax, numpy as np, jax.numpy as jnp, afterfit as af
RATE = 2.0
@jax.jit
def helper(x): return RATE * x
class Holder:
    class Mine(af.penalties.Penalty):
        width: float = 0.1
        def value(self, params): return self.width * jnp.sum(helper(params["w"]))
        def prox(self, params, step): return super().prox(params, step)
def f(params, x): return helper(params["w"]) @ x
experiment = af.Experiment(af.tasks.SparseRecovery(8, 2, 6), af.models.Function(f, {"w": np.ones(8)}),
                           af.dynamics.GradientDescent(0.1, 20), Holder.Mine(0.1, 0.2), observations=5)
pathlib.Path("sent").write_bytes(cloudpickle.dumps(experiment))
print(experiment.id, experiment)
"""
RECEIVED = """
import pathlib, cloudpickle
experiment = cloudpickle.loads(pathlib.Path("sent").read_bytes())
print(experiment.id, experiment)
"""


def test_an_experiment_has_the_same_name_in_the_process_that_it_is_sent_to(tmp_path):
    said = []
    for name, source in (("sender", SENT), ("receiver", RECEIVED)):
        (tmp_path / f"{name}.py").write_text(source)
        command = [sys.executable, f"{name}.py"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
        assert done.returncode == 0, done.stderr
        said.append(done.stdout)
    assert said[0] == said[1]
    assert len(said[0].split()[0]) == 16


# ----------------------------------------------------------------------------------------- what JAX has compiled


def step(total, x):
    return total + SCALE * x, None


def scanned(params, x):
    return jax.lax.scan(step, 0.0, params["w"] * x)[0]


@jax.jit
def weighed(x):
    return SCALE * x


def nested(params, x):
    return jnp.sum(weighed(params["w"] * x))


def closed(held):
    def f(params, x):
        return held["scale"] * jnp.sum(params["w"] * x)

    return f


class Weighted(af.penalties.Penalty):
    weight = 1.0

    def value(self, params):
        return self.weight * jnp.sum(params["weights"] ** 2)


def end(experiment) -> float:
    return float(af.run_experiment(experiment, progress=False).curves["train_loss"].values[-1])


@pytest.mark.parametrize("function", [scaled, scanned, nested], ids=["itself", "under scan", "under jit"])
def test_a_changed_global_is_computed_with(function, monkeypatch):
    # What it should be: the same function with the number written into it.
    def wanted(params, x):
        return 3.0 * jnp.sum(params["w"] * x)

    before = end(of_function(function))
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    after = end(of_function(function))
    assert after != pytest.approx(before, rel=1e-3)
    assert after == pytest.approx(end(of_function(wanted)), rel=1e-9)


def test_a_changed_closure_is_computed_with():
    held = {"scale": 1.0}
    function = closed(held)
    before = end(of_function(function))
    held["scale"] = 3.0
    assert end(of_function(function)) == pytest.approx(end(of_function(closed({"scale": 3.0}))), rel=1e-9)
    assert end(of_function(function)) != pytest.approx(before, rel=1e-3)


def test_a_changed_class_is_computed_with(monkeypatch):
    weak, strong = (end(with_penalty(Weighted(strength))) for strength in (0.1, 0.5))
    assert weak != pytest.approx(strong, rel=1e-3)
    monkeypatch.setattr(Weighted, "weight", 5.0)
    assert end(with_penalty(Weighted(0.1))) == pytest.approx(strong, rel=1e-9)
    monkeypatch.setattr(Weighted, "value", lambda self, params: 10.0 * jnp.sum(params["weights"] ** 2))
    assert end(with_penalty(Weighted(0.05))) == pytest.approx(strong, rel=1e-9)


def test_theory_computes_with_a_changed_function_too(monkeypatch):
    instance = posed(of_function(scaled))
    with jax.enable_x64(True):
        before = np.asarray(hessian_rank(instance.problem, instance.initial).eigenvalues)
        monkeypatch.setitem(globals(), "SCALE", 3.0)
        after = hessian_rank(instance.problem, instance.initial).eigenvalues
    np.testing.assert_allclose(after, 9 * before, rtol=1e-9, atol=1e-12 * before[0])


@pytest.mark.parametrize(
    "experiment", [EXPERIMENT, of_function(scanned), with_penalty(Weighted(0.1))], ids=["ours", "function", "class"]
)
def test_what_has_not_changed_is_not_compiled_again(experiment, caplog):
    end(experiment)
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        end(dataclasses.replace(experiment, seed=1))
    assert not [line for line in caplog.messages if "Compiling" in line]


def test_what_cannot_be_told_is_compiled_anew(monkeypatch):
    before = end(of_function(functools.partial(guarded, threading.Lock())))
    model = of_function(functools.partial(guarded, threading.Lock()))
    assert end(model) == pytest.approx(before)
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    assert end(model) != pytest.approx(before, rel=1e-3)


def guarded(lock, params, x):
    with lock:
        return SCALE * jnp.sum(params["w"] * x)


# ----------------------------------------------------------------------------------------------------------- data

RNG = np.random.default_rng(0)
BYTES = RNG.integers(0, 256, (6, 4), dtype=np.uint8)
Y = RNG.standard_normal(6)


def of_arrays(X, y=Y) -> Experiment:
    return dataclasses.replace(EXPERIMENT, task=af.tasks.Arrays(X, y, X, y))


def test_arrays_are_told_by_content_type_and_shape():
    base = of_arrays(BYTES)
    assert of_arrays(BYTES.copy()).id == base.id
    assert of_arrays(np.asfortranarray(BYTES)).id == base.id
    others = [BYTES.view(np.int8), BYTES.astype(float), BYTES.reshape(6, 2, 2)]
    assert of_arrays(BYTES.astype(np.int64)).id == of_arrays(BYTES.astype(float)).id  # which it becomes
    assert len({base.id, *(of_arrays(X).id for X in others)}) == 1 + len(others)


def test_arrays_are_held_as_they_were_given():
    X, y, initial = BYTES.astype(float), Y.copy(), {"w": np.ones(4)}
    task, model = af.tasks.Arrays(X, y, X, y), af.models.Function(scaled, initial)
    experiment = dataclasses.replace(EXPERIMENT, task=task, model=model, init=af.inits.Own())
    before, drawn = experiment.id, experiment.draw().inputs.copy()
    X[:], y[:], initial["w"][:] = 0, 0, 0
    assert experiment.id == before
    np.testing.assert_array_equal(experiment.draw().inputs, drawn)
    np.testing.assert_array_equal(model.initial["w"], np.ones(4))
    for held in (task.X, task.y, task.X_test, task.y_test, model.initial["w"]):
        with pytest.raises(ValueError, match="read-only"):
            held[0] = 1


class Shaped(af.penalties.Penalty):
    shape: "object" = None

    def value(self, params):
        return jnp.sum(jnp.asarray(self.shape) * params["weights"])


def test_an_array_in_a_noun_of_ones_own_is_held_and_told():
    values = np.arange(8)
    noun = Shaped(0.1, values)
    before = with_penalty(noun).id
    values[0] = 9
    assert with_penalty(noun).id == before
    others = [noun.shape.astype(np.int8), noun.shape.astype(float), noun.shape.reshape(2, 4), values]
    assert len({before, *(with_penalty(Shaped(0.1, other)).id for other in others)}) == 1 + len(others)


# ---------------------------------------------------------------------------------------------------------- store


def test_an_interrupted_run_does_not_pass_for_the_whole_one(tmp_path):
    store = Store(tmp_path / "store")
    run = af.run_experiment(EXPERIMENT, progress=False)
    cut = dataclasses.replace(run, status="interrupted", message="by Ctrl-C")
    with pytest.raises(SpecError, match=r"was interrupted.*run\.save"):
        store.publish(cut.id, cut.files())
    assert run.id not in store
    assert af.sweep(EXPERIMENT, {"penalty.strength": [0.1]}, store=store).missing == [EXPERIMENT]
    assert store.publish(run.id, run.files())
