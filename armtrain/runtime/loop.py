"""The training loop: epochs, batches, checkpoints, validation, log.

`armtrain-run` (kernels/run) runs the same loop. Epoch e trains the samples
shuffle(seed, e, count, 0), shuffle(seed, e, count, 1), ... in batches of the planned size; the
last one may be smaller. An epoch's loss is the sum over its batches, in order and in double
precision, of loss times what counts (`Engine.counted`), divided by the sum of that.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any

from armtrain.data import Source
from armtrain.data.augment import Augment
from armtrain.errors import NonFiniteError
from armtrain.optim.lr_scheduler import LRScheduler
from armtrain.runtime.augmenting import Augmentation
from armtrain.runtime.batches import Buffers, evaluate_source, with_row
from armtrain.runtime.callbacks import CallbackError, Callbacks
from armtrain.runtime.checkpoints import KEEP, check_writable, hold_directory, refuse_used, resume
from armtrain.runtime.engine import RunState
from armtrain.runtime.given import compare_given, data_crc32
from armtrain.runtime.history import EpochRecord, Evaluation, History
from armtrain.runtime.log import JsonLog
from armtrain.runtime.measure import PeakMeter
from armtrain.runtime.progress import Progress, words_of
from armtrain.runtime.signals import StopGuard
from armtrain.runtime.watch import Watch, WatchOptions

if TYPE_CHECKING:
    from armtrain._engine import Engine

__all__ = ["FitOptions", "Shuffle", "TrainingLoop"]

Shuffle = Callable[[int, int, int, int, Any], None]
"""shuffle(seed, epoch, count, first, out): sample numbers from position `first` on."""
ScheduleScale = Callable[[str, Sequence[float], Sequence[int], bool, int, int, float], float]
"""schedule_scale(word, values, milestones, per_step, epoch, step, plateau): the rates' factor."""


@dataclass(frozen=True)
class FitOptions:
    """What one run is asked to do; see `Trainer.fit`."""

    epochs: int
    checkpoint: str | os.PathLike[str] | None = None
    checkpoint_every: int | None = None
    resume: bool = False
    log: str | os.PathLike[str] | None = None
    schedule: tuple[LRScheduler, ...] = ()
    augment: Augment | None = None
    callbacks: Callbacks = field(default_factory=Callbacks)
    watch: WatchOptions | None = None


class TrainingLoop:
    """One run over open and checked data."""

    def __init__(
        self,
        engine: Engine,
        shuffle: Shuffle,
        schedule_scale: ScheduleScale,
        buffers: Buffers,
        meter: PeakMeter,
        *,
        seed: int,
        labels: bool,
        progress: Progress,
        augmentation: Augmentation | None = None,
        about: str | None = None,
    ) -> None:
        """Keep what every run of a trainer shares."""
        self._engine = engine
        self._shuffle = shuffle
        self._schedule_scale = schedule_scale
        self._buffers = buffers
        self._meter = meter
        self._seed = seed
        self._labels = labels
        self._progress = progress
        self._augmentation = augmentation
        info = engine.info()
        self._level = str(info["kernel_level"])
        self._arena_bytes = int(info["arena_bytes"])
        self._seconds = 0.0
        self._trained = 0
        self._held = -1
        self._ignored = int(info["ignored_label"])
        self._skipped = self._measured = False
        self._about = about
        self._watch = Watch(engine, None, progress, about)

    def run(self, train: Source, validation: Source | None, options: FitOptions) -> History:
        """Train until the asked epochs are complete or a signal asks to stop."""
        if options.checkpoint is None:
            return self._run(train, validation, options)
        with hold_directory(options.checkpoint, self._progress) as self._held:
            return self._run(train, validation, options)

    def _run(self, train: Source, validation: Source | None, options: FitOptions) -> History:
        """Do the same with the checkpoint directory held."""
        watch = self._watch = Watch(self._engine, options.watch, self._progress, self._about)
        target = self._begin(train, options)
        state = RunState.of(self._engine)
        if options.checkpoint is not None and state.epoch < target:
            check_writable(options.checkpoint)
        if state.epoch >= target:
            self._progress.note(
                f"already finished: {state.epoch} of {target} epochs are complete, nothing to do"
            )
        opened = JsonLog(options.log, state.epoch) if options.log is not None else nullcontext()
        records: list[EpochRecord] = []
        with opened as log, StopGuard() as guard:
            try:
                options.callbacks.call("on_train_begin", epochs=target, samples=train.count)
                while state.epoch < target and not watch.exhausted(state.epoch, state.position):
                    record = self._epoch(state, train, validation, target, options, guard)
                    if record is None:
                        self._stop(state, options)
                        break
                    records.append(record)
                    watch.take(record, self._measured)
                    if log is not None:
                        log.write(record)
                    self._progress.end(target, record)
                    self._save(state, options)
                    options.callbacks.call("on_epoch_end", record.epoch, **record.to_json_dict())
                    if guard.requested:
                        self._stop(None, options)
                        break
                else:
                    watch.tell(state.epoch, state.position)
                options.callbacks.call("on_train_end", epochs=len(records))
            except CallbackError as error:
                self._save(state, options)
                raise error.with_way(self._way(options)) from error.__cause__
            finally:
                self._progress.clear()
        early = watch.exhausted(state.epoch, state.position)
        return History(tuple(records), watch.best_epoch(), early)

    def _begin(self, train: Source, options: FitOptions) -> int:
        """Prepare directory and state; return the number of epochs to reach."""
        engine, count, resumed = self._engine, train.count, False
        if options.checkpoint is not None:
            if not options.resume:
                refuse_used(options.checkpoint, words_of(self._progress))
            else:
                resumed = resume(
                    engine,
                    options.checkpoint,
                    seed=self._seed,
                    n_train=count,
                    progress=self._progress,
                )
        if count < self._buffers.batch_size:
            self._progress.note(
                f"note: {count} samples are fewer than the planned batch of "
                f"{self._buffers.batch_size}: every epoch is one batch of {count}"
            )
        state = RunState.of(engine)
        self._watch.begin(resumed, state.epoch)
        kept = options.checkpoint is not None
        data = data_crc32(train, self._buffers) if kept else 0
        compare_given(engine, options.schedule, data, resumed, self._progress)
        if state.n_train != count:
            state.position, state.loss_counted, state.loss_sum = 0, 0.0, 0.0
            state.n_train = count
            state.put(engine)
        return options.epochs if options.resume else state.epoch + options.epochs

    def _epoch(
        self,
        state: RunState,
        train: Source,
        validation: Source | None,
        target: int,
        options: FitOptions,
        guard: StopGuard,
    ) -> EpochRecord | None:
        """Train the rest of an epoch and validate; None when stopped before its end."""
        self._seconds, self._trained = 0.0, 0
        self._progress.begin(state.epoch + 1, target, train.count, state.position)
        options.callbacks.call("on_epoch_begin", state.epoch + 1, position=state.position)
        while state.position < train.count:
            self._set_rate(state, options.schedule)
            self._step(state, train, options.callbacks)
            unfinished = state.position < train.count
            if unfinished and guard.requested:
                return None
            every = options.checkpoint_every
            if unfinished and every and self._engine.get_state()["step"] % every == 0:
                self._save(state, options)
        result: Evaluation | None = None
        if validation is not None:
            result = evaluate_source(
                self._engine,
                self._buffers,
                validation,
                labels=self._labels,
                stop=lambda: guard.requested,
            )
            if result is None:
                return None
        self._measured = result is not None and result.counted > 0.0
        record = self._record(state, result)
        state.epoch += 1
        state.position, state.loss_counted, state.loss_sum = 0, 0.0, 0.0
        state.put(self._engine)
        return record

    def _set_rate(self, state: RunState, schedule: tuple[LRScheduler, ...]) -> None:
        """Set the factor of the next step's learning rates; without a schedule it stays."""
        if not schedule:
            return
        scale, step = 1.0, self._engine.get_state()["step"]
        plateau = self._watch.plateau_scale
        for part in schedule:
            milestones = getattr(part, "milestones", ())
            per_step = part.interval == "step"
            scale *= self._schedule_scale(
                part.word, part.values(), milestones, per_step, state.epoch, step, plateau
            )
        state.learning_rate_scale = scale
        state.put(self._engine)

    def _step(self, state: RunState, train: Source, callbacks: Callbacks) -> None:
        """Train the next batch and account for it."""
        began = monotonic()
        buffers = self._buffers
        n = min(buffers.batch_size, train.count - state.position)
        rows = buffers.rows[:n]
        with buffers.turn:
            self._shuffle(self._seed, state.epoch, train.count, state.position, rows)
            buffers.load(train, n)
            if self._augmentation is not None:
                self._augmentation.change(state.epoch, rows, buffers.x[:n])
            try:
                loss = self._engine.train_step(buffers.x[:n], buffers.target[:n], n)
            except NonFiniteError as error:
                where = (
                    f"batch {buffers.batch_number(state.position)} of epoch {state.epoch + 1}; "
                    "checkpoints are as they were"
                )
                arrays = {"x": buffers.x[:n], "y": buffers.target[:n]}
                raise with_row(error, train, rows, arrays, where) from error
            counted = self._engine.counted()
        if not counted:
            self._tell_skipped(state, n)
        state.loss_sum += loss * counted
        state.loss_counted += counted
        state.position += n
        self._trained += n
        self._seconds += monotonic() - began
        self._progress.step(n, loss)
        if callbacks and counted:
            step = self._engine.get_state()["step"]
            callbacks.call("on_step_end", step, loss=loss, samples=n)

    def _tell_skipped(self, state: RunState, n: int) -> None:
        """Say once that a batch of which nothing counts makes no step."""
        if not self._skipped:
            self._progress.note(
                f"note: all {n} samples of batch {self._buffers.batch_number(state.position)} of "
                f"epoch {state.epoch + 1} have only the ignored label {self._ignored}: no step is "
                "made for such a batch (told once)"
            )
        self._skipped = True

    def _record(self, state: RunState, result: Evaluation | None) -> EpochRecord:
        """Return the epoch's line."""
        return EpochRecord(
            epoch=state.epoch + 1,
            kernel_level=self._level,
            train_loss=state.loss_sum / state.loss_counted if state.loss_counted else 0.0,
            val_loss=result.loss if result else None,
            val_accuracy=result.accuracy if result else None,
            seconds=self._seconds,
            samples_per_second=self._trained / self._seconds if self._seconds else 0.0,
            arena_bytes=self._arena_bytes,
            peak_rss_bytes=self._meter.process_peak_bytes(),
            swap_read_bytes=0,
            swap_written_bytes=0,
        )

    def _save(self, state: RunState, options: FitOptions) -> None:
        """Write a checkpoint if the run has a directory for them."""
        if options.checkpoint is not None:
            state.put(self._engine)
            self._engine.checkpoint_save(os.fspath(options.checkpoint), KEEP, self._held)

    def _stop(self, state: RunState | None, options: FitOptions) -> None:
        """Say where a stopped run continues; `state` still needs its checkpoint."""
        self._progress.clear()
        if state is not None:
            state.put(self._engine)
            self._save(state, options)
        self._progress.note(f"stopped; {self._way(options)}")

    def _way(self, options: FitOptions) -> str:
        """Say how a run that ended early goes on."""
        if options.checkpoint is None:
            return "without a checkpoint directory the run is not saved"
        way = words_of(self._progress)["resume"]
        return f"a checkpoint is in {os.fspath(options.checkpoint)}, continue with {way}"
