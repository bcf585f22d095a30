"""Plain JAX that never ends on two cores or more: why `afterfit._base.turns` lets one program compute at a time.

Four threads, each in a compiled loop of batched LU factorisations. jaxlib's kernel splits a batch into tasks on XLA's
pool and waits for them inside a thread of that pool; when every thread waits, no one is left to do the tasks. Seen
with jaxlib 0.10.2. Once this ends by itself, jaxlib has mended it.
"""

import threading

import jax
import jax.numpy as jnp
import numpy as np


@jax.jit
def factorise(matrices, times):
    """LU of a batch, again and again."""
    return jax.lax.fori_loop(0, times, lambda _, x: x + 1e-9 * jax.vmap(jax.scipy.linalg.lu_factor)(x)[0], matrices)


def main():
    jax.config.update("jax_enable_x64", True)
    batch = jnp.asarray(np.random.default_rng(0).standard_normal((16, 100, 100)))
    factorise(batch, 1).block_until_ready()

    def work():
        for _ in range(100):
            factorise(batch, 20).block_until_ready()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print("ended")


if __name__ == "__main__":
    main()
