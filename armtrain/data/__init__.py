"""Training data: small readers behind one interface, streamed in bounded memory.

`open_data` turns a SPEC string or a pair of arrays into a `Source`; see `armtrain.data.spec`
for the SPECs.
"""

from armtrain.data.balance import class_weights
from armtrain.data.sequences import pad_sequences
from armtrain.data.source import Expected, Source
from armtrain.data.spec import Spec, open_data, parse_spec

__all__ = [
    "Expected",
    "Source",
    "Spec",
    "class_weights",
    "open_data",
    "pad_sequences",
    "parse_spec",
]
