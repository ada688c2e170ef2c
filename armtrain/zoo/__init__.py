"""Model definitions with a default input shape, loss and optimiser.

>>> from armtrain import zoo
>>> zoo.entry("lenet5").input_shape
(1, 28, 28)
"""

from armtrain.zoo.registry import ENTRIES, ZooEntry, entry, names

__all__ = ["ENTRIES", "ZooEntry", "entry", "names"]
