# cython: language_level=3, boundscheck=False, wraparound=False
"""The compiled twins of the packer's greedy orders and of its complete search."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint32_t, uint64_t


cdef extern from "pack/greedy.h" nogil:
    ctypedef struct art_pack_order:
        uint32_t n_buffers
        const int64_t *lower
        const int64_t *upper
        const int64_t *size
        const uint32_t *order
        int best_fit

    void art_pack_place(const art_pack_order *problem, uint32_t *sorted, int64_t *offset)

cdef extern from "pack/search.h" nogil:
    enum:
        ART_PACK_MAX_BUFFERS

    ctypedef enum art_pack_outcome:
        pass

    ctypedef struct art_pack_problem:
        uint32_t n_buffers
        uint32_t n_sections
        const uint32_t *start
        const uint32_t *stop
        const int64_t *size
        const uint32_t *rank
        int64_t capacity
        uint64_t node_limit

    size_t art_pack_workspace_bytes(const art_pack_problem *problem)
    art_pack_outcome art_pack_search(const art_pack_problem *problem, void *workspace,
                                     int64_t *offset, uint64_t *nodes)

MAX_BUFFERS = ART_PACK_MAX_BUFFERS


def place(const int64_t[::1] lower, const int64_t[::1] upper, const int64_t[::1] size,
          const uint32_t[::1] order, bint best_fit, int64_t[::1] offset):
    """Fill `offset` with the place of every buffer, placed in `order`, a permutation."""
    cdef art_pack_order problem
    if size.shape[0] == 0 or not (
        lower.shape[0] == upper.shape[0] == size.shape[0] == order.shape[0] == offset.shape[0]
    ):
        raise ValueError("the arrays must have one length, at least 1")
    problem.n_buffers = size.shape[0]
    problem.lower, problem.upper = &lower[0], &upper[0]
    problem.size, problem.order = &size[0], &order[0]
    problem.best_fit = best_fit
    cdef uint32_t[::1] room = memoryview(bytearray(4 * problem.n_buffers)).cast("I")
    with nogil:
        art_pack_place(&problem, &room[0], &offset[0])


def search(const uint32_t[::1] start, const uint32_t[::1] stop, const int64_t[::1] size,
           const uint32_t[::1] rank, uint32_t n_sections, int64_t capacity, uint64_t node_limit,
           int64_t[::1] offset):
    """Search completely; return the outcome's number and the nodes spent."""
    cdef uint64_t nodes = 0
    cdef int outcome
    cdef art_pack_problem problem
    if not 0 < size.shape[0] <= ART_PACK_MAX_BUFFERS or not (
        start.shape[0] == stop.shape[0] == size.shape[0] == rank.shape[0] == offset.shape[0]
    ):
        raise ValueError("the arrays must have one length, from 1 to MAX_BUFFERS")
    problem.n_buffers = size.shape[0]
    problem.n_sections = n_sections
    problem.start, problem.stop = &start[0], &stop[0]
    problem.size, problem.rank = &size[0], &rank[0]
    problem.capacity, problem.node_limit = capacity, node_limit
    # Whole numbers of 8 bytes keep it aligned.
    cdef int64_t[::1] workspace = memoryview(
        bytearray((art_pack_workspace_bytes(&problem) + 7) // 8 * 8)).cast("q")
    with nogil:
        outcome = art_pack_search(&problem, &workspace[0], &offset[0], &nodes)
    return outcome, nodes
