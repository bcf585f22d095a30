"""Tasks, each with its loss exactly as its paper writes it. A new one is a subclass of `Task`.

What a module here has in its `__all__` is public: a new task is written into the module that it fits, and no list.
"""

from afterfit.models._inputs import Entries, OneHot, Signature
from afterfit.tasks import _functions, _given, _linear, _matrices, _modular
from afterfit.tasks._base import Data, Task
from afterfit.tasks._functions import *
from afterfit.tasks._given import *
from afterfit.tasks._linear import *
from afterfit.tasks._matrices import *
from afterfit.tasks._modular import *

__all__ = ["Data", "Entries", "OneHot", "Signature", "Task"]
__all__ += _functions.__all__
__all__ += _given.__all__
__all__ += _linear.__all__
__all__ += _matrices.__all__
__all__ += _modular.__all__


def __dir__() -> list[str]:
    return __all__
