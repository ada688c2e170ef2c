"""`Trainer`: a plan and an engine, for people."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from armtrain.data import Source
from armtrain.data.about import About
from armtrain.data.preflight import ROLES
from armtrain.data.spec import Data
from armtrain.errors import EngineError
from armtrain.ir.program import Role
from armtrain.limits import MAX_THREADS, MAX_UINT64
from armtrain.planfile.plan import Plan
from armtrain.runtime.arguments import (
    WatchArguments,
    checked_state,
    fit_options,
    level_of,
    path_of,
    plan_of,
    progress_of,
)
from armtrain.runtime.augmenting import augmentation_with_room
from armtrain.runtime.batches import Buffers, look_at, predict_source, train_batch
from armtrain.runtime.engine import check_smallest_batch, engine_module, expected_by, output_shape
from armtrain.runtime.evaluation import evaluate_all
from armtrain.runtime.history import Evaluation, History
from armtrain.runtime.loop import TrainingLoop
from armtrain.runtime.measure import Growth, PeakMeter
from armtrain.runtime.opening import about_of_source, about_of_weights, opener
from armtrain.runtime.progress import Progress
from armtrain.runtime.room import OPEN_BYTES, buffer_bytes, index_bytes
from armtrain.values import integer, truth

__all__ = ["Trainer"]

_SAVED = (Role.WEIGHT, Role.FROZEN, Role.BUFFER)


class Trainer:
    """Trains, evaluates and predicts with the network of a plan.

    Opening reserves the whole arena and initialises the weights from the seed; afterwards the
    engine allocates nothing. Threads may share a trainer: they take turns, batch by batch. A forked
    process has to make its own.

    Parameters
    ----------
    plan : Plan or path-like
        A plan or the file of one.
    seed : int
        Key of initialisation, shuffling and dropout, at least 0.
    threads : int
        0 for the smaller of the planned number and the usable processors; more threads than
        planned are refused.
    kernel_level : str, optional
        Use these kernels instead of the processor's best ones.

    Raises
    ------
    PlanError
        The plan is damaged or inconsistent.
    DoesNotFitError
        The arena and a batch do not fit into free memory or the control group's limit.
    EngineError
        More threads than planned, an unknown kernel level, or a processor that lacks it; later,
        any use in a process forked from this one.

    Examples
    --------
    >>> trainer = Trainer("digits.plan", seed=0)                      # doctest: +SKIP
    >>> trainer.fit("digits", epochs=3, validation="digits:test")     # doctest: +SKIP
    >>> trainer.save("digits.safetensors")                            # doctest: +SKIP
    """

    def __init__(
        self,
        plan: Plan | str | os.PathLike[str],
        *,
        seed: int = 0,
        threads: int = 0,
        kernel_level: str | None = None,
    ) -> None:
        self.seed = integer("seed", seed, 0, MAX_UINT64)
        threads = integer("threads (0 for the usable processors)", threads, 0, MAX_THREADS)
        kernel_level = level_of(kernel_level)
        self.plan, content = plan_of(plan)
        module, program = engine_module(), self.plan.program
        self._meter = PeakMeter()
        self._engine = module.Engine(
            content,
            seed=self.seed,
            threads=threads,
            kernel_level=kernel_level,
            beside_bytes=buffer_bytes(program) + index_bytes(program) + OPEN_BYTES,
        )
        self._engine.initialize()
        self._shuffle, self._schedule_scale = module.shuffle, module.schedule_scale
        self._info: dict[str, Any] = self._engine.info()
        self._expected = expected_by(self._engine, program)
        self._labels = self._expected.n_classes > 0
        self._buffers = Buffers(self.plan.batch_size, self._expected)
        self._about: About | None = None
        self._opened = opener(self._engine, self.plan.batch_size, self._expected)

    @property
    def info(self) -> dict[str, Any]:
        """The engine's facts: `kernel_level`, `threads`, `arena_bytes`, ..."""
        return dict(self._info)

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, in order of their numbers; empty where the data had none."""
        return self._about.classes if self._about else ()

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of the network's output for one sample."""
        return output_shape(self.plan.program)

    @property
    def buffer_bytes(self) -> int:
        """Bytes of the batch in the user's layout, beside the arena."""
        return self._buffers.nbytes

    def new_batch(self) -> tuple[NDArray[np.float32], NDArray[Any]]:
        """Return new buffers of one planned batch: x and targets."""
        buffers = Buffers(self.plan.batch_size, self._expected)
        return buffers.x, buffers.target

    def arena_resident_bytes(self) -> int:
        """Return the arena's bytes that are in memory, in whole pages, as Linux counts."""
        return int(self._engine.resident_bytes())

    def memory_growth(self) -> Growth:
        """Return how far the process grew over its size before the engine opened."""
        return self._meter.growth()

    def process_peak_bytes(self) -> int:
        """Return the highest resident memory of the whole process, in bytes."""
        return self._meter.process_peak_bytes()

    def fit(
        self,
        train: Data,
        epochs: int,
        *,
        validation: Data | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int | None = None,
        resume: bool = False,
        log: str | os.PathLike[str] | None = None,
        schedule: Any = None,
        augment: Any = None,
        callbacks: Sequence[Any] | None = None,
        early_stopping: int | None = None,
        keep_best: str | os.PathLike[str] | None = None,
        monitor: str | None = None,
        preflight: bool = True,
        progress: Progress | bool | None = None,
    ) -> History:
        """Train for a number of epochs.

        Parameters
        ----------
        train, validation : str, (x, y) or Source
            A SPEC such as 'digits' or 'idx:images.gz,labels.gz', or arrays: x of shape
            (n, *input_shape), uint8 (divided by 255) or floats; y of n integer labels, or of
            float targets. Also samples (x, y) from an object with `[i]` and `len()`, or from a
            generator or a function that returns one; `train` alone sets names of classes.
        epochs : int
            Passes over the data; with `resume` the total of the run, so that a run which was
            interrupted any number of times ends like an uninterrupted one.
        checkpoint : path-like, optional
            Directory for checkpoints, written after every epoch; the newest two are kept. This
            run alone uses it while it trains.
        checkpoint_every : int, optional
            Also write one every so many steps.
        resume : bool
            Continue from the newest intact checkpoint in `checkpoint`, if there is one.
        log : path-like, optional
            JSON lines file, one object an epoch.
        schedule : str or LRScheduler or sequence of LRScheduler, optional
            Factor of the learning rates, as 'cosine:T_max=10'; several are multiplied.
        augment : str, Augment or mapping, optional
            Random changes of the training inputs, as 'flip,shift=2,crop=4,noise=0.05'; give the
            same with `resume`. See `armtrain.data.augment.Augment`.
        callbacks : sequence, optional
            Objects with methods such as `on_epoch_end(epoch, logs)`; see
            `armtrain.runtime.callbacks.Callback`.
        preflight : bool
            Read all data once before the first step, to refuse values that are not finite and to
            tell what looks wrong.
        early_stopping : int, optional
            Stop after so many epochs without a better value than the best before.
        keep_best : path-like, optional
            Safetensors file for the weights of the best epoch; the trainer's own are the last.
        monitor : str, optional
            'val_loss' (the default with `validation`), 'val_accuracy' or 'train_loss': the value
            that `early_stopping`, `keep_best` and ReduceLROnPlateau follow.
        progress : Progress or bool, optional
            A bar on a terminal, else lines, by default; False shows nothing.

        Returns
        -------
        History
            The epochs trained by this call.

        Raises
        ------
        DataError, ShapeError
            The data do not suit the plan; nothing was trained.
        DoesNotFitError
            Memory lacks for converting batches; nothing was trained.
        NonFiniteError
            The data hold a NaN or an infinity; the message names the row. Or a loss or weight
            stopped being finite; checkpoints are as they were. A loss that is not
            finite has changed no weight and no optimizer state, but running statistics of batch
            norm have taken its batch in: load a checkpoint before going on.
        CallbackError
            A callback failed; a checkpoint is written before, where there is a directory.
        StorageError
            A checkpoint or log could not be read or written, or another run uses the directory.
        KeyboardInterrupt
            After Ctrl-C, once a checkpoint is written. SIGTERM and SIGHUP end the process then.
            Signals that are ignored stay so, and after a handler of your own `fit` returns what it
            trained.
        """
        held = validation is not None
        watch = WatchArguments(monitor, early_stopping, keep_best, held, self._labels)
        options = fit_options(
            epochs, checkpoint, checkpoint_every, resume, log, schedule, augment, callbacks, watch
        )
        looked_at = truth("preflight", preflight)
        shown = progress_of(progress)
        with ExitStack() as stack:
            source = stack.enter_context(self._opened(train, True, None))
            about, held_out = about_of_source(source), None
            if validation is not None:
                held_out = stack.enter_context(self._opened(validation, True, about))
            check_smallest_batch(self.plan.program, source.count)
            augmentation = augmentation_with_room(
                self._engine, self.plan, options.augment, self.seed, source, held_out
            )
            for role, opened in zip(ROLES, (source, held_out), strict=True):
                self._tell(opened, role, looked_at, shown)
            self._about = about
            return TrainingLoop(
                self._engine,
                self._shuffle,
                self._schedule_scale,
                self._buffers,
                self._meter,
                seed=self.seed,
                labels=self._labels,
                progress=shown,
                augmentation=augmentation,
                about=about.to_text() if about else None,
            ).run(source, held_out, options)

    def _tell(self, source: Source | None, role: str, looked_at: bool, shown: Progress) -> None:
        """Show what opening data found and, if asked, read all of them once."""
        for note in source.notes if source else ():
            shown.note(f"note: {note}")
        if source and looked_at:
            for remark in look_at(self._buffers, source, self._expected, role):
                shown.note(f"warning: {remark}")

    def evaluate(self, data: Data, *, metrics: str | Iterable[str] = ()) -> Evaluation:
        """Return mean loss and accuracy over data; nothing is trained.

        Parameters
        ----------
        data : str, (x, y) or Source
        metrics : str or iterable of str
            Further figures: 'top5' or another number, 'confusion', 'mae'; they cost a prediction.
        """
        with self._opened(data, True, self._about) as source:
            return evaluate_all(
                self._engine, self._buffers, source, self.plan, self._expected, metrics
            )

    def predict(self, x: Data) -> NDArray[np.float32]:
        """Return the network's outputs, shape (n, *output_shape), for any number of samples.

        For a classifier these are the logits: `predict(x).argmax(axis=1)` are the classes.

        Raises
        ------
        NonFiniteError
            A sample or its output holds a NaN or an infinity; the message names the row.
        """
        with self._opened(x, False, self._about) as source:
            out = np.empty((source.count, *self.output_shape), np.float32)
            first = 0
            for part in predict_source(self._engine, self._buffers, source, self.output_shape):
                out[first : first + len(part)] = part
                first += len(part)
            return out

    def predict_batches(self, x: Data) -> Iterator[NDArray[np.float32]]:
        """Yield the outputs of data `x` batch by batch, for data larger than memory."""
        with self._opened(x, False, self._about) as source:
            yield from predict_source(self._engine, self._buffers, source, self.output_shape)

    def step(self, x: Any, y: Any) -> float:
        """Train a batch `x`, `y` of at most the planned size; return its mean loss before the step.

        Raises
        ------
        ShapeError
            More samples than planned, or another shape.
        NonFiniteError
            The loss or a weight is not finite.
        """
        with self._opened((x, y), True, None) as source:
            check_smallest_batch(self.plan.program, source.count)
            return train_batch(self._engine, self._buffers, source)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write weights and buffers to the safetensors file `path`, torch's names, crash-safe.

        Class names and preparation of the training's data are kept in its metadata.
        """
        kept = self._about.to_text() if self._about else None
        self._engine.save_safetensors(path_of("path", path), kept)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Read weights and buffers from the safetensors file `path`; all must be there and fit.

        Raises
        ------
        NonFiniteError
            The file holds a NaN, an infinity or more than a float32 can; nothing was changed.
        PlanError, ShapeError, StorageError
            It is of another model, damaged, or cannot be read; nothing was changed, unless the
            message says otherwise.
        """
        about = about_of_weights(path_of("path", path))
        self._engine.load_safetensors(path_of("path", path))
        self._about = about

    def state_dict(self) -> dict[str, NDArray[np.float32]]:
        """Return copies of weights and buffers by torch's names, in torch's layout."""
        result = {}
        for tensor in self.plan.program.tensors:
            if tensor.role in _SAVED:
                array = np.empty(tensor.layout.shape, np.float32)
                self._engine.read(tensor.name, array)
                result[tensor.name] = array
        return result

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Set weights and buffers from `state`, arrays by name.

        Raises
        ------
        ShapeError
            A name is missing or unknown, or an array has another shape or holds no real numbers;
            nothing was changed.
        NonFiniteError
            An array holds a NaN, an infinity or more than a float32 can; nothing was changed.
        """
        shapes = {t.name: t.layout.shape for t in self.plan.program.tensors if t.role in _SAVED}
        given = checked_state(shapes, state)
        for name, array in given.items():
            self._engine.write(name, array)

    def __reduce__(self) -> NoReturn:
        """Refuse `copy` and `pickle`: two trainers of one engine would train each other's weights.

        Raises
        ------
        EngineError
            Always.
        """
        raise EngineError(
            "a Trainer holds a running engine and cannot be copied or pickled: save its weights "
            "with save(path), make another Trainer of its plan where it is needed, and load(path) "
            "there; a checkpoint of fit() keeps the optimiser's state too"
        )

    def open(self, data: Data, *, targets: bool = False) -> Source:
        """Return checked data, with labels if `targets`, as a context manager for other methods."""
        return self._opened(data, truth("targets", targets), self._about)
