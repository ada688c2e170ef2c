"""Free recompute: which forward values are not kept for the backward pass.

Dropped are values that cheap steps make again from what is kept anyway, as long as that lowers the
peak and the predicted time of a step grows by little. The search counts its trials, so that the
same network gets the same plan on every host:

1. drop the values that a few steps make from what is kept, for several meanings of few: a block's
   sum is made from the sum before it, and so on. Hold the copies on the way for their own readers,
   or let them go. Keep a bit of each element where only a rectifier's gradient reads a value and
   that lowers the peak;
2. where the predicted time is too long, keep the smallest until it is not;
3. of the lowest peak, keep again, by groups and then one by one, what raises neither it nor the
   number of steps that are nearly as full, which would make a placement harder to find.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from armtrain.ir.cost import Rates, seconds_of, total_seconds, work_of
from armtrain.ir.program import Step
from armtrain.passes.again import Choice, Forwards, rewrite
from armtrain.passes.emit import Emitter
from armtrain.passes.live import live_bytes

__all__ = ["free_recompute"]

_EXTRA_TIME = 0.05
_EXTRA_TIME_BY_BYTES = 0.12
_MOSTLY = 0.5
"""Most predicted extra time, as a part of a step; more where most of its time moves bytes."""
_DEPTHS = (0, 1, 2, 4, 8, 16, 1 << 30)
"""Most steps in a row that make a value again, tried one after the other."""
_FULL = 0.99
"""Part of the peak from which on a step counts as full."""
_TRIED_STEPS = 150_000
"""Steps that all trials together may look at: about two seconds of Python."""


@dataclass(frozen=True)
class _Trial:
    """What a choice gives.

    Attributes
    ----------
    choice : Choice
    peak : int
        Bytes at the fullest step.
    full : int
        Steps that have nearly as many: the fewer, the easier to place.
    seconds : float
        What it costs.
    """

    choice: Choice
    peak: int
    full: int
    seconds: float


class _Search:
    """Looks for the values not to keep; `floor` is a peak that nothing can lower."""

    def __init__(self, emitter: Emitter, values: Forwards, rates: Rates, floor: int) -> None:
        self.emitter, self.values, self.rates, self.floor = emitter, values, rates, floor
        self.left = _TRIED_STEPS // max(1, len(values.steps))

    def trial(self, choice: Choice) -> _Trial:
        """Try a choice."""
        self.left -= 1
        emitter = self.emitter.fork()
        steps, extra = rewrite(emitter, self.values, choice)
        seconds = total_seconds(extra, emitter.tensors, self.rates, emitter.threads)
        live = live_bytes(emitter, steps)
        peak = max(self.floor, *live)
        full = sum(amount > _FULL * peak for amount in live)
        return _Trial(choice, peak, full, seconds)

    def without(self, best: _Trial, name: str) -> _Trial:
        """Take out of a set all that does not raise the peak, halving it where some do."""
        open_ = [[value for value in self.values.late if value in getattr(best.choice, name)]]
        while open_ and self.left > 0:
            part = open_.pop()
            fewer = getattr(best.choice, name) - set(part)
            tried = self.trial(replace(best.choice, **{name: fewer}))
            if tried.peak <= best.peak and tried.full <= best.full:
                best = tried
            elif len(part) > 1:
                half = len(part) // 2
                open_ += [part[half:], part[:half]]
        return best

    def masked(self, best: _Trial, limit: float) -> _Trial:
        """Keep bits instead of values where that lowers the peak."""
        bits, choice = frozenset(self.values.maskable), best.choice
        if not bits:
            return best
        tried = self.trial(Choice(choice.dropped - bits, choice.fleeting - bits, bits))
        if tried.peak < best.peak and tried.seconds <= limit:
            best = self.without(tried, "masked")
        return best

    def within(self, best: _Trial, limit: float) -> _Trial:
        """Keep the smallest values until the others cost at most `limit` seconds."""
        while best.seconds > limit and best.choice.dropped:
            dropped = best.choice.dropped
            ordered = sorted(dropped, key=lambda v: (self.emitter.tensors[v].nbytes, v))
            count = max(1, round(len(ordered) * (1.0 - limit / best.seconds)))
            left = dropped - set(ordered[:count])
            best = self.trial(Choice(left, best.choice.fleeting & left, best.choice.masked))
        return best

    def best(self, limit: float) -> _Trial:
        """Return the best choice found that costs at most `limit` seconds."""
        starts = dict.fromkeys(frozenset(self.values.shallow(depth)) for depth in _DEPTHS)
        choices = [Choice(d, f) for d in starts for f in dict.fromkeys((frozenset(), d))]
        trials = [self.within(self.masked(self.trial(c), limit), limit) for c in choices]
        best = min(trials, key=lambda t: (t.seconds > limit, t.peak, t.full, t.seconds))
        return self.without(self.without(best, "fleeting"), "dropped")


def _limit(emitter: Emitter, steps: Sequence[Step], rates: Rates) -> float:
    """Return the most extra seconds of a training step."""
    total = by_bytes = 0.0
    for step in steps:
        work = work_of(step, emitter.tensors)
        seconds = seconds_of(work, rates, emitter.threads)
        total += seconds
        by_bytes += seconds if work.product < 1.0 else 0.0
    return total * (_EXTRA_TIME_BY_BYTES if by_bytes > _MOSTLY * total else _EXTRA_TIME)


def free_recompute(
    emitter: Emitter, steps: Sequence[Step], rates: Rates, floor: int
) -> tuple[Step, ...]:
    """Return the training steps with values made again where that lowers the peak.

    Parameters
    ----------
    emitter : Emitter
        Gets the copies.
    steps : sequence of Step
        The TRAIN phase in execution order.
    rates : Rates
        Of the board.
    floor : int
        Peak of the other phases in bytes: below it nothing is gained.
    """
    values = Forwards.of(steps, emitter)
    search = _Search(emitter, values, rates, floor)
    base = search.trial(Choice())
    if not values.late or base.peak <= floor:
        return tuple(steps)
    best = search.best(_limit(emitter, steps, rates))
    if best.peak >= base.peak:
        return tuple(steps)
    return tuple(rewrite(emitter, values, best.choice)[0])
