"""A recommender: what a user would rate a product."""

from __future__ import annotations

from armtrain import nn

__all__ = ["ProductRatings"]


class ProductRatings(nn.Module):
    """Embeddings of a user and of a product, and three linear layers of both.

    Source: the application "ProductRatings" of NNTrainer; the default tables are as large as the
    100,000 ratings of MovieLens need, whose numbers begin with 1.

    Parameters
    ----------
    users, products : int
        Rows of the tables: the largest numbers and one more.
    width : int
        Of a row.
    """

    def __init__(self, users: int = 944, products: int = 1683, width: int = 5) -> None:
        super().__init__()
        self.user = nn.Embedding(users, width)
        self.product = nn.Embedding(products, width)
        self.layers = nn.Sequential(
            *(nn.Linear(2 * width, 128), nn.ReLU(), nn.Linear(128, 32), nn.ReLU()),
            nn.Linear(32, 1),
        )

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        """Return ratings (N, 1) of pairs (N, 2): a user and a product."""
        both = [self.user(x[:, 0]), self.product(x[:, 1])]
        return self.layers(nn.functional.cat(both, 1))
