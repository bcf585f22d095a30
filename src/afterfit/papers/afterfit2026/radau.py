"""The steps of SciPy's Radau, an implicit method that knows nothing of ρ, along the flow of a run."""

from __future__ import annotations

import afterfit as af

__all__ = ["steps_of_radau"]


def steps_of_radau(run: af.Run, rtol: float) -> int:
    """How many it takes to the end of a run; those that it rejects it does not tell."""
    import jax
    import numpy as np
    from jax.flatten_util import ravel_pytree
    from scipy.integrate import solve_ivp

    with jax.enable_x64(True):
        instance = af.theory.instance_of(run)
        start, tree = ravel_pytree(instance.initial)

        @jax.jit
        def velocity(θ: jax.Array) -> jax.Array:
            return -ravel_pytree(instance.problem.gradient(tree(θ)))[0]

        jacobian = jax.jit(jax.jacfwd(velocity))
        flow = solve_ivp(
            lambda t, θ: np.asarray(velocity(θ)),
            (0.0, float(run.curves["time"][-1])),
            np.asarray(start),
            method="Radau",
            jac=lambda t, θ: np.asarray(jacobian(θ)),
            rtol=rtol,
            atol=1e-9,
        )
        return len(flow.t) - 1
