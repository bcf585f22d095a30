"""Ways to follow a gradient flow. A new one is a `Method` with a `name`, in a module here (found by itself) or anywhere
else.
"""

from afterfit._base.rules import discover
from afterfit.dynamics._methods._base import FlowState, FlowToFollow, Method

__all__ = ["FlowState", "FlowToFollow", "Method"]

discover(__name__)
