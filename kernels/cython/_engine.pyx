# cython: language_level=3, boundscheck=False, wraparound=False
"""The C engine for Python: one handle, buffers in and out, statuses to exceptions.

No algorithm lives here. Steps run without the interpreter lock; signals are handled by Python
between two calls.
"""

import os
import threading

from armtrain.errors import EngineError, ShapeError, error_from_status
from armtrain.process import check_process

cimport cython
from c_api cimport *
from libc.string cimport memcpy, memset
from posix.unistd cimport getpid, pid_t

include "buffers.pxi"


@cython.final
cdef class Engine:
    """An open plan: see armtrain/_engine.pyi."""

    cdef art_engine *engine
    cdef object turn
    cdef pid_t owner
    cdef art_info facts

    def __cinit__(self):
        self.turn = threading.Lock()
        self.owner = getpid()

    def __init__(self, plan, *, seed=0, threads=0, kernel_level=None, poison=False,
                 ignore_memory=False, beside_bytes=0):
        cdef art_error err
        cdef art_options options
        cdef _Buffer content = _Buffer(plan)
        cdef int status
        if self.engine != NULL:
            raise EngineError("the engine is open already")
        level = None if kernel_level is None else _text(kernel_level.encode(), "kernel level")
        memset(&options, 0, sizeof(options))
        options.seed = seed
        options.threads = threads
        options.poison = bool(poison)
        options.ignore_memory = bool(ignore_memory)
        options.beside_bytes = beside_bytes
        if level is not None:
            options.kernel_level = level
        with nogil:
            status = art_engine_open(&self.engine, content.data, content.n_bytes, &options, &err)
        if status != 0:
            _raise(status, &err)
        art_engine_info(self.engine, &self.facts)

    def __dealloc__(self):
        # In a forked child there are no threads to stop: waiting for their end would not return.
        if getpid() == self.owner:
            art_engine_close(self.engine)

    cdef int enter(self) except -1:
        """Take the engine for one call; other threads wait for their turn, a fork has none."""
        if getpid() != self.owner:
            check_process(self.owner)
        self.turn.acquire()
        if self.engine == NULL:
            self.turn.release()
            raise EngineError("the engine is closed")
        return 0

    cdef _leave(self, int status, art_error *err):
        self.turn.release()
        if status != 0:
            _raise(status, err)

    cdef _Buffer target_of(self, target, n):
        kind = "int32" if self.facts.target_is_label else "float32"
        return _typed(target, "target", kind, n * self.facts.target_elements)

    def close(self):
        if self.engine != NULL:
            self.enter()
            art_engine_close(self.engine)
            self.engine = NULL
            self.turn.release()

    def target_range(self):
        cdef art_target_range *targets = &self.facts.targets
        if targets.way == NULL:
            return None
        return {
            "low": targets.low,
            "high": targets.high,
            "step": targets.step,
            "ignored": targets.ignored,
            "shares": bool(targets.shares),
            "way": targets.way.decode(),
        }

    def info(self):
        return {
            "arena_bytes": self.facts.arena_bytes,
            "batch_size": self.facts.batch_size,
            "threads": self.facts.threads,
            "n_tensors": self.facts.n_tensors,
            "n_steps": self.facts.n_steps,
            "target_is_label": bool(self.facts.target_is_label),
            "n_classes": self.facts.n_classes,
            "ignored_label": self.facts.ignored_label,
            "input_elements": self.facts.input_elements,
            "target_elements": self.facts.target_elements,
            "output_elements": self.facts.output_elements,
            "kernel_level": self.facts.kernel_level.decode(),
            "model_hash": (<char *> self.facts.model_hash)[:32].hex(),
        }

    def index_limits(self, out):
        cdef _Buffer limits = _writable(out, "out", "uint32", self.facts.input_elements)
        self.enter()
        art_engine_index_limits(self.engine, <uint32_t *> limits.data)
        self.turn.release()

    def resident_bytes(self):
        self.enter()
        resident = art_engine_resident_bytes(self.engine)
        self.turn.release()
        return resident

    def initialize(self):
        cdef art_error err
        cdef int status
        self.enter()
        with nogil:
            status = art_engine_initialize(self.engine, &err)
        self._leave(status, &err)

    def train_step(self, x, target, n, nanoseconds=None):
        cdef art_error err
        cdef int status
        cdef double loss = 0
        cdef uint32_t rows = n
        cdef _Buffer a = _typed(x, "x", "float32", n * self.facts.input_elements)
        cdef _Buffer b = self.target_of(target, n)
        cdef _Buffer times = None
        if nanoseconds is not None:
            times = _writable(nanoseconds, "nanoseconds", "uint64", self.facts.n_steps)
        self.enter()
        if times is not None:
            art_engine_time_steps(self.engine, <uint64_t *> times.data)
        with nogil:
            status = art_engine_train_step(self.engine, <const float *> a.data, b.data, rows,
                                           &loss, &err)
        art_engine_time_steps(self.engine, NULL)
        self._leave(status, &err)
        return loss

    def evaluate_step(self, x, target, n):
        cdef art_error err
        cdef int status
        cdef double loss = 0
        cdef uint64_t correct = 0
        cdef uint32_t rows = n
        cdef _Buffer a = _typed(x, "x", "float32", n * self.facts.input_elements)
        cdef _Buffer b = self.target_of(target, n)
        self.enter()
        with nogil:
            status = art_engine_evaluate_step(self.engine, <const float *> a.data, b.data, rows,
                                              &loss, &correct, &err)
        self._leave(status, &err)
        return loss, correct

    def counted(self):
        self.enter()
        divisor = art_engine_counted(self.engine)
        self.turn.release()
        return divisor

    def predict_step(self, x, n, out):
        cdef art_error err
        cdef int status
        cdef uint32_t rows = n
        cdef _Buffer a = _typed(x, "x", "float32", n * self.facts.input_elements)
        cdef _Buffer b = _writable(out, "out", "float32", n * self.facts.output_elements)
        self.enter()
        with nogil:
            status = art_engine_predict_step(self.engine, <const float *> a.data, rows,
                                             <float *> b.data, &err)
        self._leave(status, &err)

    def read(self, name, out):
        cdef art_error err
        cdef int status
        cdef bytes text = _text(name.encode(), "name")
        cdef const char *key = text
        cdef _Buffer data = _writable(out, name, "float32", memoryview(out).nbytes // 4)
        self.enter()
        status = art_engine_read(self.engine, key, data.data, data.n_bytes, &err)
        self._leave(status, &err)

    def write(self, name, data):
        cdef art_error err
        cdef int status
        cdef bytes text = _text(name.encode(), "name")
        cdef const char *key = text
        cdef _Buffer values = _typed(data, name, "float32", memoryview(data).nbytes // 4)
        self.enter()
        status = art_engine_write(self.engine, key, values.data, values.n_bytes, &err)
        self._leave(status, &err)

    def peek(self, tensor, out):
        cdef art_error err
        cdef int status
        cdef uint32_t index = tensor
        cdef _Buffer data = _Buffer(out)
        if memoryview(out).readonly:
            raise ShapeError("out is read-only, it cannot take the result")
        self.enter()
        status = art_engine_peek(self.engine, index, data.data, data.n_bytes, &err)
        self._leave(status, &err)

    def poke(self, tensor, data):
        cdef art_error err
        cdef int status
        cdef uint32_t index = tensor
        cdef _Buffer values = _Buffer(data)
        self.enter()
        status = art_engine_poke(self.engine, index, values.data, values.n_bytes, &err)
        self._leave(status, &err)

    def run_steps(self, first, last, n):
        cdef art_error err
        cdef int status
        cdef uint32_t start = first, stop = last, rows = n
        self.enter()
        with nogil:
            status = art_engine_run_steps(self.engine, start, stop, rows, &err)
        self._leave(status, &err)

    def save_safetensors(self, path, metadata=None, *, best=False):
        cdef art_error err
        cdef int status
        cdef bytes text = _text(os.fsencode(path), "path")
        cdef bytes kept = b"" if metadata is None else _text(metadata.encode("ascii"), "metadata")
        cdef const char *place = text
        cdef const char *about = NULL if metadata is None else <const char *>kept
        cdef bint marked = best
        self.enter()
        with nogil:
            if marked:
                status = art_engine_save_best(self.engine, place, about, &err)
            else:
                status = art_engine_save_safetensors_with(self.engine, place, about, &err)
        self._leave(status, &err)

    def check_best(self, path):
        cdef art_error err
        cdef int status
        cdef bytes text = _text(os.fsencode(path), "path")
        cdef const char *place = text
        self.enter()
        with nogil:
            status = art_engine_check_best(self.engine, place, &err)
        self._leave(status, &err)

    def load_safetensors(self, path):
        cdef art_error err
        cdef int status
        cdef bytes text = _text(os.fsencode(path), "path")
        cdef const char *place = text
        self.enter()
        with nogil:
            status = art_engine_load_safetensors(self.engine, place, &err)
        self._leave(status, &err)

    def checkpoint_save(self, directory, keep, held=-1):
        cdef art_error err
        cdef int status, descriptor = held
        cdef uint32_t kept = keep
        cdef bytes text = _text(os.fsencode(directory), "path")
        cdef const char *place = text
        self.enter()
        with nogil:
            status = art_checkpoint_save_held(self.engine, place, descriptor, kept, &err)
        self._leave(status, &err)

    def checkpoint_load(self, directory):
        cdef art_error err
        cdef int status
        cdef char note[4096]
        cdef bytes text = _text(os.fsencode(directory), "path")
        cdef const char *place = text
        note[0] = 0
        self.enter()
        with nogil:
            status = art_checkpoint_load(self.engine, place, note, sizeof(note), &err)
        self.turn.release()
        skipped = note.decode("utf-8", "replace")
        if status != 0:
            reason = err.text.decode("utf-8", "replace")
            raise error_from_status(status, "; ".join([reason, *skipped.splitlines()]))
        return skipped

    def get_state(self):
        cdef art_run_state state
        self.enter()
        art_engine_get_state(self.engine, &state)
        self.turn.release()
        return state

    def set_state(self, state=None, **fields):
        cdef art_run_state new
        values = {**self.get_state(), **(state or {}), **fields}
        if len(values) != 8:
            raise EngineError(f"the run's state has 8 fields, these were given: {sorted(values)}")
        new = values
        self.enter()
        art_engine_set_state(self.engine, &new)
        self.turn.release()

    def set_augment(self, *, flip=False, shift=0, crop=0, noise=0.0):
        cdef art_error err
        cdef art_augment what
        what.flip, what.shift, what.crop, what.noise = flip, shift, crop, noise
        self.enter()
        self._leave(art_engine_set_augment(self.engine, &what, &err), &err)

    def get_monitor(self):
        cdef art_monitor memory
        self.enter()
        art_engine_get_monitor(self.engine, &memory)
        self.turn.release()
        return memory

    def set_monitor(self, memory):
        cdef art_monitor new = memory
        self.enter()
        art_engine_set_monitor(self.engine, &new)
        self.turn.release()

    def random_sample(self, seed, index, x, target):
        cdef uint64_t key = seed, position = index
        cdef _Buffer a = _writable(x, "x", "float32", self.facts.input_elements)
        cdef _Buffer b = self.target_of(target, 1)
        if memoryview(target).readonly:
            raise ShapeError("target is read-only, it cannot take the result")
        self.enter()
        art_random_sample(self.engine, key, position, <float *> a.data, b.data)
        self.turn.release()


def shuffle(seed, epoch, count, first, out):
    """Write the sample indices at positions `first`, `first` + 1, ... of an epoch into `out`."""
    cdef uint64_t key = seed, round_ = epoch, total = count, start = first, i
    cdef uint64_t n = memoryview(out).nbytes // 8
    cdef _Buffer data = _writable(out, "out", "uint64", n)
    cdef uint64_t *rows = <uint64_t *> data.data
    if start > total or n > total - start:
        raise ShapeError(f"positions {start} to {start + n} of {total} samples were asked for")
    with nogil:
        for i in range(n):
            rows[i] = art_shuffle(key, round_, total, start + i)


include "augment.pxi"
include "machine.pxi"
include "schedule.pxi"
