"""Specifications: written down and read back without loss, refused by name and value, light to import."""

# No `from __future__ import annotations` here: a user's class may have real types as annotations, too.

import contextlib
import dataclasses
import hashlib
import inspect
import json
import math
import subprocess
import sys
import tomllib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afterfit import Experiment, SpecError, dynamics, inits, models, penalties, quantities, tasks
from afterfit._base.errors import nearest
from afterfit._base.spec import Spec

CONSTANT = {"kind": "constant_schedule", "value": 0.5}
STEPWISE = {"kind": "piecewise_constant_schedule", "init_value": 1.0, "boundaries_and_scales": {3: 0.1}}

# Of every noun an instance or two with settings that differ from the defaults.
NOUNS = [
    tasks.SparseRegression(8, 6, 2, "sign", "gaussian", 0.25, "half_mean", 50, precision="single"),
    tasks.SparseRecovery(8, 2, 6, scale=0.5, coherence=0.25, snr=1e8, variance=0.2, precision="single"),
    tasks.SparseClassification(8, 6, 2, "gaussian", loss_name="exponential", n_test=10, precision="single"),
    tasks.MarginClassification(8, 6, 3.5, loss_name="exponential", n_test=10, precision="single"),
    tasks.MatrixCompletion(5, 5, 1, truth="multiplication_table", symmetric=True, coherence=0.5, observed=9),
    tasks.MatrixCompletion(4, 5, 2, observed=0.6, reduction="mean", precision="single", size=3.0),
    tasks.MatrixSensing(
        4, 4, 2, truth="orthogonal", symmetric=True, N=9, measurements="rank_one", variance=0.5, size=3.0
    ),
    tasks.MatrixSensing(4, 4, 2, coherence=0.5, reduction="half_sum", precision="single", size=3.0),
    tasks.ModularArithmetic(7, 0.5, "-", "tokens", precision="double", loss_name="squared"),
    tasks.ReLURegression(7, 2, 30, precision="single"),
    tasks.FourierRegression(7, 9, (2, 3), (4,), 30, precision="single"),
    tasks.Interpolation((0.0, 0.5, 2.0), (1.0, -1.0, 3.0), 30, precision="single"),
    tasks.TeacherStudent(6, 4, 3, 8, 10, reduction="mean", precision="single"),
    tasks.CirclePoints(7, 2, 30, precision="single", reduction="mean"),
    models.Linear(),
    models.DiagonalNet(3),
    models.DiagonalProduct(3),
    models.MatrixFactorisation(3),
    models.SymmetricFactorisation(2),
    models.DeepMatrixFactorisation(4, 3),
    models.MLP((5, 4), "all", activation="tanh"),
    models.EmbeddingMLP(3, 5),
    models.ConvNet("4-M-8"),
    models.EmbeddingMLP(4, 5, product="matrix", shared=False, biases="none"),
    models.Difference(models.Difference(models.MLP((5,), "hidden"))),
    models.Tangent(models.MLP((5,), "hidden")),
    models.LastLayer(models.MLP((5,), "hidden")),
    penalties.NoPenalty(),
    penalties.L1(1e-5),
    penalties.L2(1 / 3),
    penalties.ElasticNet(1e-5, 0.9),
    penalties.GroupLasso(1e-5, 3),
    penalties.Frobenius(1e-5),
    penalties.Nuclear(1e-5, "weights"),
    penalties.Sobolev(0.1),
    penalties.Sobolev(0.1, form="norm"),
    penalties.Sum(2.0, (penalties.L1(0.1), penalties.Nuclear(0.2, "weights"))),
    dynamics.GradientDescent(0.1, 7, until="certain"),
    dynamics.ProximalGradient(0.1, 7, until="certain"),
    dynamics.ProjectedSubgradient(0.1, 7, until="certain"),
    dynamics.LossScaledDescent(0.1, 7, until="certain"),
    dynamics.SGD(0.1, 7, 32, until="certain"),
    dynamics.SGD(0.1, 7, momentum=0.9, schedule=CONSTANT),
    dynamics.LabelNoiseSGD(0.1, 7, 0.5, seed=3, until="certain"),
    dynamics.Adam(0.1, 7, 0.8, 0.9, 1e-4, until="certain"),
    dynamics.AdamW(0.1, 7, 0.8, 0.9, 1e-4, 0.3, until="certain"),
    dynamics.GradientDescent(0.1, 7, batch=3, momentum=0.9, schedule=CONSTANT),
    dynamics.Adam(0.1, 7, batch=3, schedule=STEPWISE),
    dynamics.AdamW(0.1, 7, batch=3, schedule=STEPWISE),
    dynamics.Optax({"kind": "lion", "learning_rate": 1e-3, "b1": 0.5}, lr=0.5, steps=7, batch=3),
    dynamics.Optax(
        [{"kind": "trace", "decay": 0.9}, {"kind": "scale_by_sign"}], steps=7, schedule=CONSTANT, until="settled"
    ),
    dynamics.GradientFlow(2e4, 1e-5, 1e-7, 99, 1e-3, method="implicit"),
    dynamics.GradientFlow("settled", horizon=1e5),
    dynamics.LossScaledFlow(50.0, 1e-3, 1e-7, 99, 0.5, method="explicit"),
    dynamics.RiemannianFlow(20.0, 1e-5, 1e-7, 99, 1e-3, method="implicit"),
    dynamics.RiemannianFlow("settled", horizon=100.0),
    dynamics.LabelNoiseFlow(20.0, 1e-5, 1e-7, 99, 1e-3, method="implicit", noise=0.5),
    dynamics.LabelNoiseFlow("settled", horizon=100.0),
    inits.Constant(0.5, shape=(1.0, 2.0), seed=3),
    inits.Constant(norm=128.0, seed=3),
    inits.Gaussian(0.5, seed=3),
    inits.ScaledGaussian(1e-6, seed=3),
    inits.He(0.5, "uniform", seed=3),
    inits.Identity(0.5, 0.1, seed=3),
    inits.Uniform(0.5, seed=3),
    inits.EmbeddingsApart(inits.ScaledGaussian(2.0), inits.Uniform(0.5), seed=3),
    inits.Own(0.5, seed=3),
    inits.ZeroLastLayer(inits.He(2.0), seed=3),
    inits.ScaledLastLayer(inits.He(2.0), seed=3, factor=0.5),
    inits.Symmetrised(inits.He(2.0), seed=3),
    quantities.DistanceFromStart(),
    quantities.EffectiveRank(),
    quantities.FeatureDistance(7),
    quantities.KernelAlignment(7),
    quantities.Margin(),
    quantities.Sharpness(),
]
# Those hold arrays, files or functions, which are not in a specification.
HOLDING_THINGS = {"Arrays", "Images", "Function", "Sequential", "From", "EndOf"}
EXPERIMENT = Experiment(
    task=tasks.SparseRecovery(8, 2, 6),
    model=models.MLP((4,)),
    dynamics=dynamics.GradientDescent(0.1, 100),
    penalty=penalties.L1(1e-3),
    init=inits.ZeroLastLayer(inits.He()),
    seed=5,
    observations=30,
)


def toml(value) -> str:
    """A value as TOML writes it. TOML has no null: a setting that is None is left out."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k} = {toml(v)}" for k, v in value.items() if v is not None) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value)  # numbers, words, true and false are written alike


def as_json(noun) -> str:
    return json.dumps(noun.to_dict(), allow_nan=False)


def read_back(noun):
    """The noun by way of a dictionary, of JSON and of TOML."""
    family, data = type(noun).family, noun.to_dict()
    yield family.from_dict(data)
    yield family.from_dict(json.loads(as_json(noun)))
    yield family.from_dict(tomllib.loads(f"noun = {toml(data)}")["noun"])


@pytest.mark.parametrize("noun", NOUNS, ids=lambda noun: type(noun).__name__)
def test_every_noun_is_read_back_as_it_was_written(noun):
    for again in read_back(noun):
        assert type(again) is type(noun)
        assert as_json(again) == as_json(noun)  # character by character: 40 does not become 40.0
        assert again == noun


def test_every_noun_and_every_setting_is_among_them():
    public = {
        name: kind
        for module in (tasks, models, penalties, dynamics, inits, quantities)
        for name, kind in ((name, getattr(module, name)) for name in module.__all__)
        if isinstance(kind, type) and issubclass(kind, Spec) and not inspect.isabstract(kind)
    }
    assert {type(noun).__name__ for noun in NOUNS} == set(public) - HOLDING_THINGS
    for name, kind in public.items():
        instances = [noun for noun in NOUNS if type(noun) is kind]
        for field in dataclasses.fields(kind):
            if kind is penalties.NoPenalty:  # its strength can only be 0
                continue
            if kind is dynamics.LossScaledFlow and field.name == "horizon":  # it does not settle
                continue
            if instances and field.default is not dataclasses.MISSING:
                assert any(getattr(noun, field.name) != field.default for noun in instances), (name, field.name)


def real_settings():
    """Every noun with every setting that is a real number, or a list of them."""
    for noun in NOUNS:
        for field in dataclasses.fields(noun):
            value = getattr(noun, field.name)
            if isinstance(value, float):
                yield pytest.param(noun, field.name, lambda x: x, id=f"{type(noun).__name__}.{field.name}")
            elif isinstance(value, tuple) and value and isinstance(value[0], float):
                yield pytest.param(noun, field.name, lambda x: (1.0, x), id=f"{type(noun).__name__}.{field.name}")


@pytest.mark.parametrize(("noun", "name", "of"), real_settings())
def test_no_setting_may_be_infinite_or_no_number(noun, name, of):
    for bad in (math.inf, -math.inf, math.nan, np.float32("inf"), jnp.array(math.inf), 10**400):
        with pytest.raises(SpecError, match=name):
            noun.replace(**{name: of(bad)})


def test_numbers_of_jax_are_numbers_unless_they_are_traced():
    assert penalties.L1(jnp.array(0.5)) == penalties.L1(np.array(0.5)) == penalties.L1(0.5)
    assert type(dynamics.GradientDescent(jnp.array(0.5), jnp.array(3)).steps) is int
    with pytest.raises(SpecError, match="strength must be 0 or more, got -1"):
        penalties.L1(jnp.array(-1.0))
    with pytest.raises(SpecError, match="strength must be a number"):
        penalties.L1(jnp.ones(2))
    assert jax.jit(lambda s: penalties.L1(s).weighted_value(jnp.ones(3)))(-1.0) == -3.0


def test_without_a_penalty_there_is_no_strength():
    bare = dataclasses.replace(EXPERIMENT, penalty=penalties.NoPenalty())
    with pytest.raises(SpecError, match=r"no penalty that a strength of 0.5 could be of: choose one.*penalty.kind=L2"):
        bare.set({"penalty.strength": 0.5})
    assert bare.set({"penalty.kind": "L2", "penalty.strength": 0.5}).penalty == penalties.L2(0.5)


@pytest.mark.parametrize("seed", [-1, 2**63, 10**400, 1.5, "one", True])
def test_seeds_that_cannot_be_are_refused(seed):
    with pytest.raises(SpecError, match="seed must be"):
        dataclasses.replace(EXPERIMENT, seed=seed)
    with pytest.raises(SpecError, match="seed"):
        inits.Gaussian(seed=seed)


@pytest.mark.parametrize("seed", [np.int64(3), np.array(3), 3.0, 2**63 - 1])
def test_whole_numbers_of_any_kind_are_seeds(seed):
    assert dataclasses.replace(EXPERIMENT, seed=seed, observations=np.int32(7)).seed == int(seed)


def test_files_as_editors_and_jokers_leave_them(tmp_path):
    text = "\n".join(f"{name} = {toml(value)}" for name, value in EXPERIMENT.to_dict().items())
    path = tmp_path / "my.toml"
    path.write_text(text, encoding="utf-8-sig")  # with a byte-order mark
    assert Experiment.from_toml(path) == EXPERIMENT
    model = "{kind = 'MLP', hidden = [3]}"
    for _ in range(200):
        model = f"{{kind = 'Difference', model = {model}}}"
    for bad, said in (
        ("x = " + 5000 * "[" + 5000 * "]", "nested too deeply"),
        (text.replace(toml(EXPERIMENT.model.to_dict()), model), ""),  # read or refused, but no traceback
        ("seed = " + 5000 * "9", "not valid TOML"),
        (text + "\n[sweep]\nseed = 1", r"\[sweep\] has no 'seed'.*stand above the first table"),
    ):
        path.write_text(bad, encoding="utf-8")
        with contextlib.nullcontext() if not said else pytest.raises(SpecError, match=said):
            Experiment.from_toml(path)
    with pytest.raises(SpecError, match="UTF-8"):
        EXPERIMENT.set({"task": {"kind": "Images", "source": "a\udcff"}})


def test_times_too_short_to_be_told_apart_are_refused():
    for settings_ in ({"until": 5e-324}, {"until": 1.0, "first": 5e-324}, {"until": "settled", "horizon": 1e-300}):
        with pytest.raises(SpecError, match="must be at least that, got"):
            dynamics.GradientFlow(**settings_)


numbers = st.floats(1e-300, 1e300)


@given(strength=numbers, lr=numbers, steps=st.integers(1, 2**62), seed=st.integers(0, 2**62), p=st.floats(0, 1))
@settings(max_examples=50)
def test_numbers_survive_to_the_last_bit(strength, lr, steps, seed, p):
    experiment = Experiment(
        task=tasks.SparseRecovery(8, 2, 6, coherence=p),
        model=models.Linear(),
        dynamics=dynamics.GradientDescent(lr, steps),
        penalty=penalties.L1(strength) + penalties.L2(lr),
        init=inits.Gaussian(strength, seed=seed),
        seed=seed,
    )
    text = "\n".join(f"{key} = {toml(value)}" for key, value in experiment.to_dict().items())
    for again in (Experiment.from_dict(json.loads(str(experiment))), Experiment.from_dict(tomllib.loads(text))):
        assert str(again) == str(experiment)
        assert again == experiment


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (lambda: penalties.L2(1), penalties.L2(1.0)),
        (lambda: penalties.L2(np.float64(0.1)), penalties.L2(0.1)),
        (lambda: penalties.L2(np.float32(0.5)), penalties.L2(0.5)),
        (lambda: dynamics.GradientDescent(0.1, 1e3), dynamics.GradientDescent(0.1, 1000)),
        (lambda: dynamics.GradientDescent(0.1, np.int64(7)), dynamics.GradientDescent(0.1, 7)),
        (lambda: models.MLP([4, 3]), models.MLP((4, 3))),
        (lambda: penalties.Penalty.from_dict({"kind": "L2", "strength": 1}), penalties.L2(1.0)),
    ],
    ids=["1", "float64", "float32", "1e3", "int64", "list", "read"],
)
def test_the_same_number_is_the_same_specification(said, meant):
    # A whole number for a real one, a float for a count, a number of NumPy's: one run has one name.
    assert as_json(said()) == as_json(meant)


def test_a_toml_file_says_an_experiment(tmp_path):
    path = tmp_path / "my.toml"
    path.write_text(
        """
        seed = 5
        observations = 30
        [task]
        kind = "SparseRecovery"
        n = 8
        sparsity = 2
        N = 6
        [model]
        kind = "MLP"
        hidden = [4]
        [penalty]
        kind = "L1"
        strength = 1e-3
        [dynamics]
        kind = "GradientDescent"
        lr = 0.1
        steps = 100
        [init]
        kind = "ZeroLastLayer"
        init = { kind = "He" }
        """
    )
    assert Experiment.from_toml(path) == EXPERIMENT


def test_arrays_and_functions_are_described_but_not_read_back():
    X = np.arange(6.0).reshape(2, 3)
    y = np.ones(2)
    described = tasks.Arrays(X, y, X, y).to_dict()
    json.dumps(described, allow_nan=False)
    assert described["shapes"]["X"] == [2, 3]
    assert tasks.Arrays(X + 1e-12, y, X, y).to_dict()["sha256"] != described["sha256"]
    assert tasks.Arrays(X.copy(), y, X, y).to_dict() == described
    function = models.Function(nearest, {"W": X, "b": [y]}, 2).to_dict()
    assert json.loads(json.dumps(function))["parameters"] == {"W": [2, 3], "b": [[2]]}
    assert function["function"] == "afterfit._base.errors.nearest"
    for family, data in ((tasks.Task, described), (models.Model, function)):
        with pytest.raises(SpecError):
            family.from_dict(data)


# Changing settings.


def test_settings_are_changed_by_their_dotted_names():
    changed = EXPERIMENT.set(
        {"penalty.strength": 1, "init.init.scale": 0.5, "model.hidden": [7, 8], "seed": 9, "dynamics.steps": 5}
    )
    assert changed.penalty == penalties.L1(1.0)
    assert changed.init == inits.ZeroLastLayer(inits.He(0.5))
    assert changed.model == models.MLP((7, 8))
    assert (changed.seed, changed.dynamics.steps) == (9, 5)
    assert EXPERIMENT.penalty == penalties.L1(1e-3), "the original stays"
    assert EXPERIMENT.set({}) == EXPERIMENT


@pytest.mark.parametrize("order", [1, -1])
def test_another_kind_is_set_together_with_its_settings(order):
    changes = {"penalty.kind": "Nuclear", "penalty.strength": 0.5, "penalty.of": "weights"}
    changed = EXPERIMENT.set(dict(list(changes.items())[::order]))
    assert changed.penalty == penalties.Nuclear(0.5, "weights")
    assert EXPERIMENT.set({"init.kind": "Own"}).init == inits.Own()


def test_settings_beside_arrays_and_functions_can_be_changed():
    X, y = np.ones((2, 3)), np.ones(2)
    held = dataclasses.replace(
        EXPERIMENT,
        task=tasks.Arrays(X, y, X, y),
        model=models.Function(lambda p, x: p @ x, np.ones(3)),
        init=inits.Own(),
    )
    changed = held.set({"penalty.strength": 0.5})
    assert changed.penalty == penalties.L1(0.5)
    assert changed.task is held.task
    assert changed.model is held.model


def test_replace_checks_again():
    assert penalties.L1(1.0).replace(strength=2.0) == penalties.L1(2.0)
    with pytest.raises(SpecError, match="got -1"):
        penalties.L1(1.0).replace(strength=-1.0)
    with pytest.raises(SpecError, match=r"strenght.*'strength'"):
        penalties.L1(1.0).replace(strenght=1.0)


# Typos name the nearest choice.


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pennalty": {"kind": "L1", "strength": 0.1}}, "'pennalty'.*'penalty'"),
        ({"penalty": {"kind": "L3", "strength": 0.1}}, "penalty 'L3'.*'L[12]'"),
        ({"penalty": {"kind": "nuclear", "strengh": 0.1}}, "penalty 'nuclear'.*'Nuclear'"),
        ({"penalty": {"kind": "L1", "strengh": 0.1}}, r"penalty\.strengh .*L1.*'strength'"),
        ({"penalty": {"strength": 0.1}}, "penalty does not say its kind.*L1, L2"),
        ({"penalty": {"kind": "L1"}}, "penalty L1 needs a value for strength"),
        ({"penalty": "L1"}, "penalty must be a table.*'L1'"),
        ({"penalty": {"kind": 3}}, "penalty 3"),
        ({"penalty": {"kind": ["L1"]}}, "L1"),
        ({"penalty": {"kind": "Penalty"}}, "penalty 'Penalty'"),
        ({"penalty": {"kind": "GradientDescent"}}, "penalty 'GradientDescent'"),
        ({"dynamics": {"kind": "GradientDescend", "lr": 1, "steps": 1}}, "'GradientDescend'.*'GradientDescent'"),
        ({"dynamics": {"kind": "GradientDescent"}}, "needs a value for lr, steps"),
        ({"init": {"kind": "ZeroLastLayer", "init": {"kind": "Hee"}}}, r"init\.init 'Hee'.*'He'"),
        (
            {"penalty": {"kind": "Sum", "penalties": [{"kind": "L1", "strength": 1}, {"kind": "L22"}]}},
            r"penalty\.penalties\[1\] 'L22'.*'L2'",
        ),
        ({"task": {"kind": "ModularArithmetic", "operation": "x"}}, "operation 'x'"),
        ({"penalty": {"kind": "L1", "strength": -2}}, "got -2"),
    ],
)
def test_typos_in_a_specification(changes, message):
    with pytest.raises(SpecError, match=message):
        Experiment.from_dict({**EXPERIMENT.to_dict(), **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"penalty.strenght": 1}, r"'penalty\.strenght'.*'penalty\.strength'"),
        ({"penalti.strength": 1}, "'penalti'.*'penalty'"),
        ({"init.innit.scale": 1}, r"'init\.innit\.scale'.*'init\.init\.scale'"),
        ({"sead": 1}, "'sead'.*'seed'"),
        ({"penalty.kind": "l11", "penalty.strength": 1}, "'l11'.*'L1'"),
        ({"penalty.strength": -1}, "got -1"),
        ({"penalty.strength": "large"}, "penalty.strength must be a number, got 'large'"),
        ({"seed.value": 1}, "'seed'"),
    ],
)
def test_typos_in_a_change(changes, message):
    with pytest.raises(SpecError, match=message):
        EXPERIMENT.set(changes)


@pytest.mark.parametrize("missing", ["task", "model", "dynamics"])
def test_what_every_experiment_needs(missing):
    data = {key: value for key, value in EXPERIMENT.to_dict().items() if key != missing}
    with pytest.raises(SpecError, match=rf"does not say its {missing}.*\[{missing}\]"):
        Experiment.from_dict(data)


def test_bad_files(tmp_path):
    path = tmp_path / "my.toml"
    with pytest.raises(SpecError, match=r"cannot read .*my\.toml"):
        Experiment.from_toml(path)
    path.write_text("seed = = 3")
    with pytest.raises(SpecError, match=r"my\.toml is not valid TOML"):
        Experiment.from_toml(path)
    path.write_bytes(b"seed = '\xff'")
    with pytest.raises(SpecError, match=r"my\.toml"):
        Experiment.from_toml(path)


# Wrong types are refused, with the place and the value.


@pytest.mark.parametrize(
    ("where", "value"),
    [
        ("penalty.strength", "0.1"),
        ("penalty.strength", True),
        ("penalty.strength", None),
        ("penalty.strength", [0.1]),
        ("penalty.strength", {"value": 0.1}),
        ("dynamics.steps", 10.5),
        ("dynamics.steps", "10"),
        ("dynamics.steps", False),
        ("task.n", 8.5),
        ("task.precision", 64),
        ("model.hidden", 5),
        ("model.hidden", "wide"),
        ("model.hidden", [2.5]),
        ("model.hidden", ["5"]),
        ("model.hidden", [[5]]),
        ("model.biases", True),
        ("init.init", "He"),
        ("init.init", None),
        ("init.seed", 1.5),
        ("seed", "5"),
        ("seed", 5.5),
        ("seed", True),
        ("observations", "30"),
        ("observations", 1),
    ],
)
def test_wrong_types_are_refused(where, value):
    with pytest.raises(SpecError) as refusal:
        EXPERIMENT.set({where: value})
    message = str(refusal.value)
    assert where.split(".")[-1] in message
    values = [value, tuple(value), *value] if isinstance(value, list) else [value]
    assert any(repr(said) in message for said in values), message


@pytest.mark.parametrize("noun", ["task", "model", "penalty", "dynamics", "init"])
def test_an_experiment_of_something_else_is_refused(noun):
    with pytest.raises(SpecError, match=rf"{noun} must be one of afterfit\.\w+, got 3"):
        dataclasses.replace(EXPERIMENT, **{noun: 3})


# A noun of one's own.


class Ridge(penalties.Penalty):
    """Declared with real types as annotations."""

    power: float = 2.0
    times: int = 1
    name: str = "ridge"
    corners: tuple[float, ...] = ()
    inner: penalties.Penalty | None = None

    def value(self, params):
        return params**self.power


def test_a_noun_of_ones_own_is_known_by_being_defined():
    ridge = Ridge(0.5, 3.0, 2, "mine", (1.0, 2.0), penalties.L1(0.1))
    for again in read_back(ridge):
        assert again == ridge
    read = penalties.Penalty.from_dict({"kind": "Ridge", "strength": 1, "power": 3, "corners": [1, 2]})
    assert (type(read.strength), type(read.power)) == (float, float)
    assert read.corners == (1.0, 2.0)
    with pytest.raises(SpecError, match=r"'Rige'.*'Ridge'"):
        penalties.Penalty.from_dict({"kind": "Rige", "strength": 1})
    for field, value in (("power", "3"), ("times", 1.5), ("times", "1"), ("name", 3), ("corners", 2.5)):
        with pytest.raises(SpecError, match=rf"penalty\.{field} must be .*{value!r}"):
            penalties.Penalty.from_dict({"kind": "Ridge", "strength": 1.0, field: value})


# Importing.


def test_importing_changes_nothing_and_stays_light():
    heavy = ["diffrax", "optax", "xarray", "matplotlib", "scipy.stats", "torch", "cvxpy", "pandas", "duckdb", "fsspec"]
    code = (
        "import sys, jax, numpy, warnings;"
        "before = jax.config.values.copy(); state = numpy.random.get_state()[1].copy();"
        "filters = list(warnings.filters); printing = numpy.get_printoptions();"
        "import afterfit;"
        f"assert not [name for name in {heavy} if name in sys.modules], sys.modules.keys();"
        "assert jax.config.jax_enable_x64 is False; assert jax.config.values == before;"
        "assert (numpy.random.get_state()[1] == state).all(); assert numpy.get_printoptions() == printing;"
        "assert list(warnings.filters) == filters"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (done.stdout, done.stderr) == ("", "")


# Names.


def left_out(data, noun):
    """A specification without what is said by default anyway."""
    defaults = {field.name: field.default for field in dataclasses.fields(noun)}
    kept = {name: value for name, value in data.items() if name == "kind" or getattr(noun, name) != defaults[name]}
    return {name: left_out(v, getattr(noun, name)) if isinstance(v, dict) else v for name, v in kept.items()}


def test_one_experiment_has_one_name_however_it_is_written():
    data = EXPERIMENT.to_dict()
    backwards = json.loads(json.dumps(data), object_pairs_hook=lambda pairs: dict(pairs[::-1]))
    whole = json.loads(json.dumps(data), parse_float=lambda x: int(float(x)) if float(x) % 1 == 0 else float(x))
    nouns = ("task", "model", "dynamics", "penalty", "init")
    short = {name: left_out(data[name], getattr(EXPERIMENT, name)) for name in nouns} | {"seed": 5, "observations": 30}
    assert list(backwards) != list(data)
    assert str(whole) != str(data)
    assert len(str(short)) < len(str(data))
    for same in (backwards, whole, short):
        assert Experiment.from_dict(same).id == EXPERIMENT.id
    text = json.dumps(data, sort_keys=True).replace(", ", ",").replace(": ", ":")  # there is no such text in it
    assert EXPERIMENT.id == hashlib.sha256(text.encode()).hexdigest()[:16]


NUMBERS = {
    "seed": st.integers(0, 2**62),
    "observations": st.integers(2, 10**6),
    "task.n": st.integers(2, 10**6),
    "dynamics.lr": st.floats(1e-300, 1e300),
    "dynamics.steps": st.integers(1, 2**62),
    "penalty.strength": st.floats(1e-300, 1e300),
    "init.init.scale": st.floats(1e-300, 1e300),
    "model.hidden": st.lists(st.integers(1, 1000), min_size=1),
}


@given(path=st.sampled_from(sorted(NUMBERS)), data=st.data())
def test_any_other_number_gives_another_name(path, data):
    ours, theirs = (EXPERIMENT.set({path: data.draw(NUMBERS[path])}) for _ in range(2))
    assert (ours.id == theirs.id) == (ours == theirs)


@given(st.floats(1e-300, 1e300))
def test_the_last_bit_of_a_number_counts(strength):
    ours, theirs = (EXPERIMENT.set({"penalty.strength": x}) for x in (strength, math.nextafter(strength, math.inf)))
    assert ours.id != theirs.id


def test_what_plain_data_cannot_say_has_no_name():
    class Own(penalties.Penalty):
        shape: Any

        def value(self, params):
            return 0.0

    own = models.Function(lambda params, x: params @ x, np.ones(3))
    functions = ({"model": own}, {"model": models.Difference(own)}, {"penalty": Own(1.0, np.tanh)})
    for holding in (*functions, {"penalty": Own(1.0, {1, 2})}, {"penalty": Own(1.0, {1: 2})}):
        experiment = dataclasses.replace(EXPERIMENT, **holding)
        assert experiment.id_if_any == ""
        with pytest.raises(
            SpecError, match=r"(a lambda|is not plain data).*no name: it can be run \(af.train\).*not sto"
        ):
            _ = experiment.id
    assert dataclasses.replace(EXPERIMENT, penalty=Own(1.0, [1, 2])).id, "plain data of one's own have one"
    X, y = np.arange(6.0).reshape(2, 3), np.ones(2)
    ours, theirs = (dataclasses.replace(EXPERIMENT, task=tasks.Arrays(X + a, y, X, y)) for a in (0, 1e-12))
    assert ours.id != theirs.id, "arrays are told apart by their digest"


def test_changes_to_a_noun_and_below_it_are_made_together():
    experiment = Experiment(
        tasks.SparseRecovery(12, 2, 6), models.Difference(models.Linear()), dynamics.GradientDescent(0.1, 10)
    )
    changed = experiment.set({"model.model": {"kind": "MLP", "hidden": [4]}, "model.model.hidden": [3]})
    assert changed.model == models.Difference(models.MLP((3,)))
    assert changed.set({"model.model.hidden": [2]}).model == models.Difference(models.MLP((2,)))
    with pytest.raises(SpecError, match=r"no setting 'dynamics.lr.x': dynamics.lr has no settings of its own"):
        experiment.set({"dynamics.lr.x": 1})
    with pytest.raises(SpecError, match=r"no setting 'dynamics.lr.x'"):
        experiment.set({"dynamics.lr": 0.2, "dynamics.lr.x": 1})
