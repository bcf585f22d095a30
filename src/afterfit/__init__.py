"""afterfit: what training does after the training loss has reached zero.

A **task** observed through data is fitted by a **model**, pulled by a **penalty**, moved by a **dynamics**; the
**run** it leaves behind is **diagnosed**, and **theory** says what it should have been.

What is public is listed in `__init__.pyi`, and loaded when it is first used: `import afterfit` loads no JAX.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

__version__ = "0.1.0"
