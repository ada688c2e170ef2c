"""The schedules whose factors `make golden` stores from PyTorch, and values that one follows."""

from __future__ import annotations

from typing import Any

__all__ = ["LEARNING_RATE", "MEASURED", "PLATEAUS", "SCHEDULES", "TIMES"]

LEARNING_RATE, TIMES = 0.5, 29

# Text -> torch's class and arguments at a learning rate of LEARNING_RATE.
SCHEDULES: dict[str, tuple[str, dict[str, Any]]] = {
    "constant": ("ConstantLR", {}),
    "constant:factor=0.25,total_iters=9": ("ConstantLR", {"factor": 0.25, "total_iters": 9}),
    "linear": ("LinearLR", {}),
    "linear:start_factor=0.01,end_factor=0.9,total_iters=11": (
        "LinearLR",
        {"start_factor": 0.01, "end_factor": 0.9, "total_iters": 11},
    ),
    "step:step_size=3,gamma=0.5": ("StepLR", {"step_size": 3, "gamma": 0.5}),
    "multistep:milestones=2/5/9": ("MultiStepLR", {"milestones": [2, 5, 9]}),
    "exponential:gamma=0.9": ("ExponentialLR", {"gamma": 0.9}),
    "polynomial": ("PolynomialLR", {}),
    "polynomial:total_iters=12,power=2": ("PolynomialLR", {"total_iters": 12, "power": 2}),
    "cosine:T_max=40": ("CosineAnnealingLR", {"T_max": 40}),
    "cosine:T_max=8,eta_min_factor=0.1": (
        "CosineAnnealingLR",
        {"T_max": 8, "eta_min": 0.1 * LEARNING_RATE},
    ),
    "one_cycle:total_steps=30": ("OneCycleLR", {"max_lr": LEARNING_RATE, "total_steps": 30}),
    "one_cycle:total_steps=31,pct_start=0.1,div_factor=10,final_div_factor=100": (
        "OneCycleLR",
        {
            "max_lr": LEARNING_RATE,
            **{"total_steps": 31, "pct_start": 0.1, "div_factor": 10, "final_div_factor": 100},
        },
    ),
}

# What ReduceLROnPlateau follows: with a share of 1/16 or 1/8 better than the best and exactly that,
# equal values, worse ones, 0 and negative ones.
MEASURED: dict[str, list[float]] = {
    "loss": [
        *(2.0, 1.875, 1.75, 1.75, 1.7, 1.8, 1.5, 1.5, 1.5, 1.5, 1.40625, 1.3, 1.29, 1.28, 1.27),
        *(1.26, 1.0, 3.0, 2.0, 1.0, 0.9999, 0.9998, 0.25, 0.25, 0.3, 0.26, 0.0, 0.0, 0.0, 0.1),
        *(-1.0, -1.0, -0.95, -0.5, -2.0, -2.1, -2.0, -1.9, -1.8, -1.7, -1.6, -1.5, -1.4, -1.3),
    ],
    "accuracy": [
        *(0.0, 0.0, 0.1, 0.1, 0.25, 0.265625, 0.27, 0.28125, 0.3, 0.31, 0.32, 0.5, 0.5, 0.5, 0.53),
        *(0.5625, 0.5, 0.4, 0.5626, 0.5, 0.6, 0.7, 0.7, 0.7, 0.7, 0.7, 0.71, 0.8, 0.9, 1.0, 1.0),
        *(1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0),
    ],
}

# Text -> torch's arguments; `eps`, below which torch leaves a rate alone, is absent here.
PLATEAUS: dict[str, dict[str, Any]] = {
    "plateau": {},
    "plateau:patience=0": {"patience": 0},
    "plateau:factor=0.5,patience=1,cooldown=2": {"factor": 0.5, "patience": 1, "cooldown": 2},
    "plateau:factor=0.75,patience=0,threshold=0.0625,min_factor=0.25": {
        **{"factor": 0.75, "patience": 0, "threshold": 0.0625, "min_lr": 0.25 * LEARNING_RATE},
    },
    "plateau:factor=0,patience=2,threshold=0,cooldown=1,min_factor=0.01": {
        **{"factor": 0.0, "patience": 2, "threshold": 0.0, "cooldown": 1},
        "min_lr": 0.01 * LEARNING_RATE,
    },
    "plateau:factor=0.9,patience=3,threshold=0.125": {
        **{"factor": 0.9, "patience": 3, "threshold": 0.125},
    },
}
