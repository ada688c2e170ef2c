"""Random changes of training inputs."""


@cython.final
cdef class Augmenter:
    """Changes for samples of one shape: see armtrain/_engine.pyi."""

    cdef art_augment what
    cdef uint32_t chw[3]

    def __init__(self, shape, *, flip, shift, crop, noise):
        cdef uint32_t dims[4]
        cdef art_error err
        if not 1 <= len(shape) <= 4:
            raise ShapeError(f"augmentation of samples of shape {tuple(shape)} is not defined")
        for i, size in enumerate(shape):
            dims[i] = size
        self.what.flip, self.what.shift, self.what.crop = flip, shift, crop
        self.what.noise = noise
        status = art_augment_check(&self.what, dims, len(shape), self.chw, &err)
        if status != 0:
            _raise(status, &err)

    def apply(self, seed, epoch, rows, x, scratch):
        cdef uint64_t key = seed, time = epoch, i, n = memoryview(rows).nbytes // 8
        cdef uint64_t elements = <uint64_t> self.chw[0] * self.chw[1] * self.chw[2]
        cdef _Buffer samples = _typed(rows, "rows", "uint64", n)
        cdef _Buffer values = _writable(x, "x", "float32", n * elements)
        cdef _Buffer plain = _writable(scratch, "scratch", "float32", elements)
        cdef float *to = <float *> values.data
        cdef float *copy = <float *> plain.data
        with nogil:
            for i in range(n):
                memcpy(copy, to + i * elements, elements * sizeof(float))
                art_augment_sample(&self.what, self.chw, key, time,
                                   (<uint64_t *> samples.data)[i], copy, to + i * elements)
