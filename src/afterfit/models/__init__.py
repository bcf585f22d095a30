"""Models, each stating its degree of homogeneity. A new one is a subclass of `Model` with two methods.

What a module here has in its `__all__` is public: a new model is written into the module that it fits, and no list.
"""

from afterfit.models import _base, _linear, _matrix, _network, _torch, _wrap
from afterfit.models._base import *
from afterfit.models._linear import *
from afterfit.models._matrix import *
from afterfit.models._network import *
from afterfit.models._torch import *
from afterfit.models._wrap import *

__all__: list[str] = []
__all__ += _base.__all__
__all__ += _linear.__all__
__all__ += _matrix.__all__
__all__ += _network.__all__
__all__ += _torch.__all__
__all__ += _wrap.__all__


def __dir__() -> list[str]:
    return __all__
