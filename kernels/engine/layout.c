/* Between the user's array and the arena: a permutation of the axes of a view, in any chunks. */
#include <string.h>

#include "engine/engine.h"
#include "ops/check.h"

/* The user's axes, outermost first, with the distance in arena elements between neighbours;
 * axes of one element are left out and axes that continue each other are joined. */
typedef struct walk {
    uint64_t extent[ART_MAX_DIMS];
    uint64_t stride[ART_MAX_DIMS];
    unsigned n;
} walk;

static walk walk_of(const art_plan_tensor *t) {
    uint64_t stride[ART_MAX_DIMS], step = 1;
    walk w = {.n = 0};
    for (unsigned i = ART_MAX_DIMS; i-- > 0;) {
        stride[t->perm[i]] = step;
        step *= t->view[t->perm[i]];
    }
    for (unsigned i = 0; i < ART_MAX_DIMS; i++) {
        if (t->view[i] == 1) {
            continue;
        }
        if (w.n > 0 && w.stride[w.n - 1] == stride[i] * t->view[i]) {
            w.extent[w.n - 1] *= t->view[i];
            w.stride[w.n - 1] = stride[i];
        } else {
            w.extent[w.n] = t->view[i];
            w.stride[w.n] = stride[i];
            w.n++;
        }
    }
    if (w.n == 0) {
        w.extent[0] = w.stride[0] = 1;
        w.n = 1;
    }
    return w;
}

/* Copy n elements of `size` bytes between places `to_step` and `from_step` elements apart. */
static void copy_run(unsigned char *to, uint64_t to_step, const unsigned char *from,
                     uint64_t from_step, uint64_t n, size_t size) {
    if (to_step == 1 && from_step == 1) {
        memcpy(to, from, n * size);
    } else if (size == 4) {
        for (uint64_t i = 0; i < n; i++) {
            memcpy(to + i * to_step * 4, from + i * from_step * 4, 4);
        }
    } else {
        for (uint64_t i = 0; i < n; i++) {
            memcpy(to + i * to_step * size, from + i * from_step * size, size);
        }
    }
}

/* Walk the user's elements [first, first + count); exactly one of `out` and `in` is given. */
static void convert(const art_engine *engine, uint32_t tensor, uint64_t first, uint64_t count,
                    unsigned char *out, const unsigned char *in) {
    const art_plan_tensor *t = art_engine_tensor(engine, tensor);
    unsigned char *arena = art_engine_tensor_data(engine, tensor);
    size_t size = (size_t)art_dtype_bytes(t->dtype);
    walk w = walk_of(t);
    unsigned inner = w.n - 1;
    uint64_t at[ART_MAX_DIMS], place = 0;
    for (unsigned i = w.n; i-- > 0;) {
        at[i] = first % w.extent[i];
        first /= w.extent[i];
        place += at[i] * w.stride[i];
    }
    for (uint64_t done = 0; done < count;) {
        uint64_t run = w.extent[inner] - at[inner];
        run = run < count - done ? run : count - done;
        if (out != NULL) {
            copy_run(out + done * size, 1, arena + place * size, w.stride[inner], run, size);
        } else {
            copy_run(arena + place * size, w.stride[inner], in + done * size, 1, run, size);
        }
        done += run;
        at[inner] += run;
        place += run * w.stride[inner];
        for (unsigned i = inner; i > 0 && at[i] == w.extent[i]; i--) {
            place += w.stride[i - 1] - at[i] * w.stride[i];
            at[i] = 0;
            at[i - 1]++;
        }
    }
}

void art_layout_read(const art_engine *engine, uint32_t tensor, uint64_t first, uint64_t count,
                     void *out) {
    convert(engine, tensor, first, count, out, NULL);
}

void art_layout_write(art_engine *engine, uint32_t tensor, uint64_t first, uint64_t count,
                      const void *in) {
    convert(engine, tensor, first, count, NULL, in);
}

uint64_t art_engine_tensor_elements(const art_engine *engine, uint32_t tensor) {
    const art_plan_tensor *t = art_engine_tensor(engine, tensor);
    return t->bytes / art_dtype_bytes(t->dtype);
}

bool art_floats_are_finite(const void *data, uint64_t n, uint64_t *where) {
    const unsigned char *p = data;
    for (uint64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, p + i * 4, 4);
        if ((bits & 0x7f800000u) == 0x7f800000u) {
            *where = i;
            return false;
        }
    }
    return true;
}

static bool doubles_are_finite(const void *data, uint64_t n, uint64_t *where) {
    const uint64_t exponent = (uint64_t)0x7ff << 52;
    const uint64_t *bits = data;
    for (uint64_t i = 0; i < n; i++) {
        if ((bits[i] & exponent) == exponent) {
            *where = i;
            return false;
        }
    }
    return true;
}

bool art_engine_is_finite(const art_engine *engine, uint32_t tensor, uint64_t elements,
                          uint64_t *where) {
    const void *data = art_engine_tensor_data(engine, tensor);
    switch (art_engine_tensor(engine, tensor)->dtype) {
    case ART_DTYPE_F32:
        return art_floats_are_finite(data, elements, where);
    case ART_DTYPE_F64:
        return doubles_are_finite(data, elements, where);
    default:
        return true;
    }
}

art_status art_engine_check_kept(const art_engine *engine, art_error *err) {
    for (uint32_t i = 0; i < engine->plan.n_tensors; i++) {
        uint64_t where = 0;
        bool fine = !art_role_is_kept(art_engine_tensor(engine, i)->role) ||
                    art_engine_is_finite(engine, i, art_engine_tensor_elements(engine, i), &where);
        ART_FAIL_IF(
            !fine, err, ART_NONFINITE,
            "'%s' holds a NaN or an infinity (element %llu): go back to a checkpoint and lower "
            "the learning rate or clip the gradients",
            art_engine_tensor_name(engine, i), (unsigned long long)where);
    }
    return ART_OK;
}
