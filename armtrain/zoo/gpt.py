"""A small language model of bytes: a decoder of causal self-attention."""

from __future__ import annotations

from armtrain import nn

__all__ = ["GptTiny"]


class GptTiny(nn.Module):
    """Four causal transformer layers of width 128 with 4 heads over 128 bytes.

    Layers normalise what they get, add to it, and have 512 features with a GELU inside, as GPT-2
    (Radford et al., "Language Models are Unsupervised Multitask Learners"). Sines and cosines tell
    places; the head has weights of its own.

    Parameters
    ----------
    vocabulary : int
        Different tokens.
    length : int
        Tokens of a sample.
    width, layers, heads : int
    """

    def __init__(
        self,
        vocabulary: int = 256,
        length: int = 128,
        width: int = 128,
        layers: int = 4,
        heads: int = 4,
    ) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.places = nn.PositionalEncoding(width, length)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(
                *(width, heads, 4 * width, 0.0, "gelu"),
                batch_first=True,
                norm_first=True,
            )
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        """Return logits (N, vocabulary, L) of the token after each of (N, L)."""
        y = self.places(self.embed(x))
        for block in self.blocks:
            y = block(y, is_causal=True)
        return self.head(self.norm(y)).transpose(1, 2)
