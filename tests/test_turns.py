"""One program at a time in a process, and Ctrl-C whatever compiled code is doing."""

import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import jax
import psutil
import pytest
from conftest import AT_ONCE, users_threads

from afterfit._base.turns import attend, computing, still_wanted
from afterfit._sweeps.jobs import cores

HERE = Path(__file__).parent

# As in a terminal: what a shell in the background starts, and a worker of pytest-xdist, ignore Ctrl-C.
LISTENING = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"


def python(code: str, *, ctrl_c: Callable | None = None, timeout: float = 120) -> tuple[int, str, float]:
    """Run a program; press Ctrl-C when `ctrl_c`, called after the first line that it printed, has returned.

    Gives the exit code, the output, and when that was.
    """
    with subprocess.Popen(
        [sys.executable, "-c", LISTENING + textwrap.dedent(code)],
        env=users_threads(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        began, said = time.time(), ""
        try:
            if ctrl_c is not None:
                assert process.stdout is not None
                said = process.stdout.readline()
                ctrl_c(psutil.Process(process.pid))
                began = time.time()
                process.send_signal(signal.SIGINT)
            output, _ = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
        return process.returncode, said + output, began


def soon(process: psutil.Process) -> None:
    time.sleep(0.5)


def helped(process: psutil.Process) -> list[psutil.Process]:
    """Wait until the program has a helper that is at work, if it may have one; its helpers."""
    helpers: list[psutil.Process] = []
    while cores() > 1 and not any(helper.cpu_times().user > 4 for helper in helpers):
        assert process.status() != psutil.STATUS_ZOMBIE
        time.sleep(0.1)
        helpers = [child for child in process.children() if helps(child)]
    soon(process)
    return helpers


def helps(process: psutil.Process) -> bool:
    return "afterfit._sweeps.helper" in process.cmdline()


@pytest.mark.skipif(cores() < 2, reason="it ends on one core")
def test_upstream_still_waits_for_itself():
    """When this fails, jaxlib has mended its batched kernels: programs may then go on at once again."""
    command = [sys.executable, str(HERE / "upstream_deadlock.py")]
    for _ in range(3):  # it may get through by luck
        with subprocess.Popen(command, env=users_threads(), stdout=subprocess.DEVNULL) as process:
            waits = waits_for_itself(process)
            process.kill()
        if waits:
            return
    pytest.fail("jaxlib's batched LAPACK no longer waits for itself")


def waits_for_itself(process: subprocess.Popen) -> bool:
    """Whether a program that computes and nothing else comes to use no processor for three seconds, before it ends."""
    used = -1.0
    while process.poll() is None:
        before, used = used, sum(psutil.Process(process.pid).cpu_times()[:2])
        if used - before < 0.02:
            return True
        time.sleep(3)
    return False


AT_ONCE_FROM_TWO_THREADS = """
import threading
import afterfit as af
from afterfit._training.train import run_together

matrices = af.Experiment(
    af.tasks.MatrixCompletion(12, 12, 1, observed=0.6), af.models.MatrixFactorisation(6),
    af.dynamics.GradientDescent(1e-2, 1500), af.penalties.L2(1e-2), af.inits.Gaussian(1.0), observations=60,
)
experiments = [matrices.set({"penalty.strength": 10.0**-k, "seed": seed}) for k in range(5) for seed in range(2)]
found = {}

def work(name):
    for k in range(10):
        found[name, k] = [run.curves for run in run_together(experiments)]

threads = [threading.Thread(target=work, args=(name,), daemon=True) for name in "ab"]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
first = found["a", 0]
same = (one.identical(other) for curves in found.values() for one, other in zip(first, curves, strict=True))
print(len(found), all(same))
"""


def test_threads_of_the_users_own_train_at_once():
    """Twenty batches of matrices from two threads: with two programs at once, the first never ended."""
    code, output, _ = python(AT_ONCE_FROM_TWO_THREADS, timeout=240)
    assert code == 0, output
    assert output.split() == ["20", "True"]


def test_a_turn_may_be_nested_and_is_given_back_after_errors():
    with computing(), computing():
        assert attend(lambda: attend_inside()) == 3
    with pytest.raises(ZeroDivisionError), computing():
        attend(lambda: 1 / 0)
    with computing():  # it is free again
        pass


def test_what_a_user_has_set_for_a_while_is_set_in_the_work():
    with jax.debug_nans(True), jax.default_matmul_precision("high"), computing():
        found = attend(lambda: (jax.config.jax_debug_nans, jax.config.jax_default_matmul_precision))
    assert found == (True, "high")


def attend_inside():
    with computing():  # in the turn of the one who waits
        return attend(lambda: 3)


def test_what_was_left_keeps_its_turn_until_it_ends():
    release, stop, order = threading.Event(), threading.Event(), []
    stop.set()
    with pytest.raises(KeyboardInterrupt), computing():
        attend(lambda: (release.wait(), order.append("left")), stop)

    def next_one():
        with computing():
            order.append("next")

    thread = threading.Thread(target=next_one)
    thread.start()
    time.sleep(0.3)
    assert order == []
    release.set()
    thread.join(10)
    assert order == ["left", "next"]


LONG_CALL = """
import afterfit as af, jax, jax.numpy as jnp

class Slow(af.models.Linear):
    "A model of which one step takes minutes."

    def __call__(self, params, inputs):
        outputs = super().__call__(params, inputs)
        turns = jnp.where(jnp.abs(outputs[0]) < 1e-100, 1, {turns})  # quick at the start only
        jax.debug.callback(lambda turns: turns > 1 and print("in the long step", flush=True), turns)
        long = jax.lax.fori_loop(0, turns, lambda _, z: jnp.tanh(z), jax.lax.stop_gradient(outputs))
        return outputs + 0 * long

run = af.train(
    task=af.tasks.SparseRecovery(n=100, sparsity=5, N=30), model=Slow(), init=af.inits.Constant(1e-300),
    dynamics=af.dynamics.GradientDescent(0.1, 1000), progress=False,
)
import time
print(run.status, len(run.curves.time), time.time())
"""


def test_ctrl_c_ends_a_run_whatever_compiled_code_is_doing():
    code, output, pressed = python(LONG_CALL.replace("{turns}", "10**10"), ctrl_c=soon)
    assert code == 0, output
    status, observed, ended = output.split()[-3:]
    assert (status, observed) == ("interrupted", "1")
    assert float(ended) - pressed < AT_ONCE


LONG_ANSWER = """
import afterfit as af, jax, jax.numpy as jnp, time
from afterfit.theory._limits import Limit

class Endless(Limit):
    "A limit that takes compiled code minutes to find."

    name, regime, source = "endless", "any", "nowhere"

    @classmethod
    def obstacle(cls, instance):
        return None

    def find(self, instance):
        print("in the long call", flush=True)
        return jax.jit(lambda z: jax.lax.fori_loop(0, 10**10, lambda _, z: jnp.tanh(z), z))(jnp.ones(9))

run = af.train(
    task=af.tasks.SparseRecovery(n=9, sparsity=2, N=5), model=af.models.Linear(), init=af.inits.Constant(0.0),
    dynamics=af.dynamics.GradientDescent(0.1, 10), progress=False,
)
try:
    {ask}
except KeyboardInterrupt:
    print(time.time(), flush=True)
    raise
"""


# `thorough`: on busy cores what is allowed may be over before the limit is asked for.
@pytest.mark.parametrize("ask", ["af.theory.explain(run, thorough=True)", "af.theory.limits(run)"])
def test_ctrl_c_ends_an_answer_whatever_compiled_code_is_doing(ask):
    code, output, pressed = python(LONG_ANSWER.replace("{ask}", ask), ctrl_c=soon)
    assert code == 130, output
    ended = next(float(line) for line in output.splitlines() if line.replace(".", "").isdigit())
    assert ended - pressed < AT_ONCE
    assert time.time() - pressed < AT_ONCE, "nor does the process wait for it as it ends"


def test_work_that_nobody_waits_for_ends_when_it_asks():
    def endless():
        while True:
            still_wanted()
            time.sleep(0.01)

    def asked_within():  # work inside of work: who waits for it is not waited for either
        with computing():
            attend(endless)

    for work in (endless, asked_within):
        stop = threading.Event()
        threading.Timer(0.3, stop.set).start()
        with pytest.raises(KeyboardInterrupt), computing():
            attend(work, stop)
        left = time.time()
        with computing():  # its turn is given back, or this would wait for ever
            assert time.time() - left < AT_ONCE


SWEEP = """
import afterfit as af
spec = af.Experiment(
    af.tasks.MatrixCompletion(12, 12, 1, observed=0.6), af.models.MatrixFactorisation(6),
    af.dynamics.GradientDescent(1e-2, {steps}), af.penalties.L2(1e-2), af.inits.Gaussian(1.0), observations=60,
)
over = {{"penalty.strength": af.geomspace(1e-3, 1, 5), "init.scale": af.geomspace(0.03, 3, 5)}}
sweep = af.sweep(spec, over, seeds=2, store={store!r})
print("began", flush=True)
try:
    sweep.run(progress=False)
except KeyboardInterrupt:
    import time
    print(time.time())
    raise
print(len(sweep.store.ids()))
"""


def test_a_sweep_of_matrices_ends_every_time(tmp_path):
    """The sweep that stopped for ever at 0 or 10 of 50 runs, 6 times of 6."""
    for k in range(3):
        code, output, _ = python(SWEEP.format(steps=600, store=str(tmp_path / str(k))), timeout=200)
        assert code == 0, output
        assert output.split() == ["began", "50"]


def test_batches_of_any_width_end():
    """Entries whose programs hold factorisations; `make stress` does this with the whole gallery."""
    ids = ["boursier2025/prop2", "notsawo2025/fig27"]
    command = [sys.executable, str(HERE / "stress_gallery.py"), "--seed", "1", *ids]
    done = subprocess.run(command, env=users_threads(), capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    assert "runs ended" in done.stdout


def test_ctrl_c_ends_a_sweep_and_leaves_nobody_behind(tmp_path):
    helpers = []  # its own: another worker of pytest-xdist may have some too, which come and go as they like
    code, output, pressed = python(
        SWEEP.format(steps=10**9, store=str(tmp_path / "store")), ctrl_c=lambda sweep: helpers.extend(helped(sweep))
    )
    assert code in (130, -signal.SIGINT), output
    assert float(output.split()[1]) - pressed < AT_ONCE
    assert bool(helpers) == (cores() > 1)
    assert [helper for helper in helpers if helper.is_running()] == []


def test_threads_are_used_again():
    """Each new one would be given memory by the C library that hardly comes back."""
    with computing():
        names = {attend(threading.get_ident) for _ in range(50)}
    assert len(names) <= 3  # one may not have sat down yet when the next work comes


def test_work_that_ends_as_the_patience_does_has_its_result(monkeypatch):
    class Late(Future):
        """A future whose work ends just after one has stopped waiting for it."""

        def result(self, timeout=None):
            if timeout is None or self.done():
                return super().result(timeout)
            super().result()
            raise TimeoutError

    monkeypatch.setattr("afterfit._base.turns.Future", Late)
    with computing():
        assert attend(lambda: time.sleep(0.1) or 3) == 3
        with pytest.raises(TimeoutError, match="of its own"):
            attend(raise_late)


def raise_late():
    time.sleep(0.1)
    raise TimeoutError("of its own")


SWALLOWED = """
import gc, time
from afterfit._base.turns import computing

def callback(phase, info):  # Ctrl-C is pressed in here, and Python forgets what a callback raises
    until = time.time() + 2.5
    try:
        while phase == "start" and time.time() < until:
            pass
    except KeyboardInterrupt:
        print("forgotten", flush=True)
        raise

gc.callbacks.append(callback)
try:
    with computing():
        print("began", flush=True)
        gc.collect()
        time.sleep(100)
finally:
    print(time.time())
"""


def test_ctrl_c_in_the_garbage_collector_is_heard():
    code, output, pressed = python(SWALLOWED, ctrl_c=soon)
    assert code in (130, -signal.SIGINT), output
    began, forgotten, heard, *_ = output.split()
    assert (began, forgotten) == ("began", "forgotten")
    assert float(heard) - pressed < AT_ONCE
    assert output.rstrip().endswith("KeyboardInterrupt")
