"""Buffers and texts of Python as C sees them."""

# Formats of the buffer protocol that mean a type (C's int or long may be the 4-byte one).
_FORMATS = {"float32": ("f", 4), "int32": ("il", 4), "uint32": ("IL", 4), "uint64": ("QL", 8)}

cdef char _no_bytes = 0


cdef _raise(int status, art_error *err):
    raise error_from_status(status, err.text.decode("utf-8", "replace"))


cdef bytes _text(bytes text, str what):
    """Bytes of a path or name that C reads to their end, which it takes for the first NUL."""
    if b"\0" in text:
        raise ValueError(f"the {what} {text!r} holds a NUL character")
    return text


@cython.final
cdef class _Buffer:
    """A contiguous buffer held open; `data` is never NULL."""

    cdef const unsigned char[::1] view
    cdef void *data
    cdef size_t n_bytes

    def __cinit__(self, source):
        view = memoryview(source)
        if not view.c_contiguous:
            raise ShapeError("the array is not contiguous: pass numpy.ascontiguousarray(array)")
        self.n_bytes = view.nbytes
        self.data = &_no_bytes
        if self.n_bytes > 0:
            self.view = view.cast("B")
            self.data = <void *> &self.view[0]


cdef _Buffer _typed(source, str name, str dtype, elements):
    """A buffer of exactly `elements` values of `dtype`."""
    codes, itemsize = _FORMATS[dtype]
    view = memoryview(source)
    if view.format not in codes or view.itemsize != itemsize:
        raise ShapeError(f"{name} must be {dtype}, its buffer has format '{view.format}'")
    if view.nbytes != elements * itemsize:
        raise ShapeError(
            f"{name} has {view.nbytes // itemsize} elements of {dtype}, {elements} are needed")
    return _Buffer(view)


cdef _Buffer _writable(source, str name, str dtype, elements):
    """The same for a buffer that is written."""
    if memoryview(source).readonly:
        raise ShapeError(f"{name} is read-only, it cannot take the result")
    return _typed(source, name, dtype, elements)
