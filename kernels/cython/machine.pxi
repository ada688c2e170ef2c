"""What the C library says without an open plan: machine, checksums, scratch."""


def kernel_levels():
    """Return the kernel levels that this processor can run, slowest first."""
    cdef unsigned int n = 0, i
    cdef const art_level *levels = art_levels(&n)
    cdef const art_level *best = art_level_select(NULL)
    names = []
    for i in range(n):
        if art_level_select(levels[i].name) != NULL:
            names.append(levels[i].name.decode())
        # Without a best one ARMTRAIN_CPU is wrong, which opening an engine refuses.
        if best != NULL and levels[i].name == best.name:
            break
    return names


def cpu_features():
    """Return the feature bits of this processor (ART_CPU_* of kernels/core/cpu.h)."""
    return art_cpu_features()


def multiply_adds(level, rounds):
    """Multiply and add in registers at a kernel level; return how many operations that were."""
    cdef bytes name = _text(level.encode(), "kernel level")
    cdef uint64_t count = rounds
    cdef float value
    if level not in kernel_levels():
        raise EngineError(f"kernel level '{level}' is unknown or this processor lacks it; it has: "
                          f"{', '.join(kernel_levels())}")
    cdef const art_roof *roof = art_roof_find(name)
    with nogil:
        value = roof.run(count)
    return count * roof.flop if value > 0 else 0


def usable_cpus():
    """Return how many processors this process may use."""
    return art_cpu_usable()


def memory_available():
    """Return the bytes that this process can still get and the name of the limit that says so."""
    cdef const char *limit
    cdef uint64_t available = art_memory_available(&limit)
    return available, limit.decode()


def crc32(data):
    """Return zlib's CRC-32 of a buffer, computed by the C library."""
    cdef _Buffer content = _Buffer(data)
    cdef uint32_t crc
    with nogil:
        crc = art_crc32(0, content.data, content.n_bytes)
    return crc


def op_workspace(op, dims, attrs, threads):
    """Return the scratch bytes that an operation needs, computed by the C library."""
    cdef art_op_args args
    cdef art_attr slots[16]
    cdef const art_op *found = art_op_find(op)
    cdef uint32_t i, j
    cdef bint fits = found != NULL and len(dims) == found.n_operands and len(attrs) <= 16
    if fits:
        fits = len(attrs) >= found.n_attrs if found.tail else len(attrs) == found.n_attrs
    if not fits:
        raise ShapeError(f"operation {op}: {len(dims)} operands and {len(attrs)} attributes")
    memset(&args, 0, sizeof(args))
    args.attr = slots
    args.n_attrs = len(attrs)
    args.n_operands = found.n_operands
    args.threads = threads
    for i in range(found.n_attrs):
        if found.attr[i].kind == b"i"[0]:
            slots[i].i = attrs[i]
        else:
            slots[i].f = attrs[i]
    for i in range(found.n_operands):
        shape = dims[i] or ()
        if len(shape) > ART_MAX_DIMS:
            raise ShapeError(f"operand {i} has {len(shape)} dimensions, at most {ART_MAX_DIMS}")
        args.operand[i].ndim = len(shape)
        args.operand[i].bytes = 1 if shape else 0
        for j in range(ART_MAX_DIMS):
            args.operand[i].dims[j] = shape[j] if j < len(shape) else 1
    return 0 if found.workspace == NULL else found.workspace(&args)


def version():
    """Return the version of the C library."""
    return art_version().decode()
