"""Static placement of buffers in one arena: pure numbers, no tensors."""

from armtrain.memory.packer import pack
from armtrain.memory.problem import Buffer, Problem, Solution

__all__ = ["Buffer", "Problem", "Solution", "pack"]
