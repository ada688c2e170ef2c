/* Everything random that is not inside an operation: initial values, `random:` data, shuffling. */
#include <string.h>

#include "core/math.h"
#include "core/rng.h"
#include "engine/engine.h"
#include "engine/monitor.h"

/* Elements [4 block, 4 block + 4) of a uniform tensor; `count` of them are stored. */
static void fill_uniform_block(const art_plan_tensor *t, uint64_t seed, uint64_t stream,
                               uint64_t block, float *out, unsigned count) {
    uint32_t words[4];
    art_philox(seed, stream, block, words);
    for (unsigned i = 0; i < count; i++) {
        double unit = (words[i] >> 8) * 0x1p-24; /* as art_random_uniform */
        out[i] = (float)(t->init_a + (t->init_b - t->init_a) * unit);
    }
}

static void fill_random(const art_plan_tensor *t, uint64_t seed, uint64_t stream, float *data,
                        uint64_t n) {
    if (t->init_kind == ART_INIT_UNIFORM) {
        for (uint64_t i = 0; i < n; i += 4) {
            fill_uniform_block(t, seed, stream, i / 4, data + i, n - i < 4 ? (unsigned)(n - i) : 4);
        }
        return;
    }
    double mean = t->init_kind == ART_INIT_NORMAL ? t->init_a : 0.0;
    for (uint64_t i = 0; i < n; i++) {
        double normal = art_random_normal(seed, stream, i);
        data[i] = (float)(mean + t->init_b * normal);
    }
}

/* The row of a table that means nothing. */
static void clear_row(art_engine *engine, uint32_t tensor, uint64_t n) {
    static const float zero = 0.0f;
    const art_plan_tensor *t = art_engine_tensor(engine, tensor);
    if (!(t->init_a >= 0.0 && t->init_a < (double)t->shape[0])) {
        return;
    }
    uint64_t each = n / t->shape[0], first = (uint64_t)t->init_a * each;
    for (uint64_t i = 0; i < each; i++) {
        art_layout_write(engine, tensor, first + i, 1, &zero);
    }
}

/* Rows of sines and cosines of angles that a row adds, each column pair a factor less. */
static void fill_sinusoid(const art_plan_tensor *t, float *data, uint64_t n) {
    const uint64_t columns = t->dims[t->ndim - 1];
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t row = i / columns, column = i % columns;
        double angle = (double)row * art_pow_u64(t->init_a, column / 2);
        data[i] = (float)art_sin_shifted(angle, column & 1);
    }
}

static void fill_constant(void *data, unsigned dtype, uint64_t n, double value) {
    for (uint64_t i = 0; i < n; i++) {
        switch (dtype) {
        case ART_DTYPE_F32:
            ((float *)data)[i] = (float)value;
            break;
        case ART_DTYPE_F64:
            ((double *)data)[i] = value;
            break;
        default:
            break;
        }
    }
}

static void initialize_tensor(art_engine *engine, uint32_t tensor) {
    const art_plan_tensor *t = art_engine_tensor(engine, tensor);
    void *data = art_engine_tensor_data(engine, tensor);
    uint64_t n = art_engine_tensor_elements(engine, tensor);
    uint64_t stream = art_stream_of_name(art_engine_tensor_name(engine, tensor));
    memset(data, 0, (size_t)t->bytes);
    if (t->init_kind == ART_INIT_CONSTANT) {
        fill_constant(data, t->dtype, n, t->init_a);
    } else if (t->init_kind == ART_INIT_SINUSOID) {
        fill_sinusoid(t, data, n);
    } else if (t->init_kind != ART_INIT_NONE) {
        fill_random(t, engine->seed, stream, data, n);
    }
    if (t->init_kind == ART_INIT_NORMAL_BUT_ROW) {
        clear_row(engine, tensor, n);
    }
}

art_status art_engine_initialize(art_engine *engine, art_error *err) {
    for (uint32_t i = 0; i < engine->plan.n_tensors; i++) {
        const art_plan_tensor *t = art_engine_tensor(engine, i);
        if (!art_role_is_kept(t->role)) {
            continue;
        }
        bool fits =
            t->init_kind == ART_INIT_NONE || t->dtype == ART_DTYPE_F32 ||
            (t->init_kind == ART_INIT_CONSTANT && (t->dtype == ART_DTYPE_F64 || t->init_a == 0.0));
        ART_FAIL_IF(!fits, err, ART_PLAN_FORMAT,
                    "'%s' has type %u, which initialiser %u cannot fill",
                    art_engine_tensor_name(engine, i), t->dtype, t->init_kind);
        initialize_tensor(engine, i);
    }
    art_run_state fresh = {.seed = engine->seed, .learning_rate_scale = 1.0};
    engine->state = fresh;
    engine->monitor = art_monitor_fresh();
    engine->ready = true;
    return ART_OK;
}

/* Where a loss takes single numbers it is one of these; its other ranges have those in [0, 1). */
static float random_target(const art_target_range *range, uint64_t seed, uint64_t stream,
                           uint64_t counter) {
    if (range->step == 0.0) {
        return art_random_uniform(seed, stream, counter);
    }
    uint64_t numbers = (uint64_t)((range->high - range->low) / range->step) + 1;
    uint64_t number = art_random_u32(seed, stream, counter) * numbers >> 32;
    return (float)(range->low + range->step * (double)number);
}

void art_random_sample(const art_engine *engine, uint64_t seed, uint64_t index, float *x,
                       void *target) {
    uint64_t x_stream = art_stream_of_name("random:x");
    uint64_t target_stream = art_stream_of_name("random:target");
    art_info info;
    art_engine_info(engine, &info);
    for (uint64_t i = 0; i < info.input_elements; i++) {
        uint64_t counter = index * info.input_elements + i;
        uint64_t rows = engine->index_limit ? engine->index_limit[info.input_elements + i] : 0;
        x[i] = rows == 0 ? art_random_uniform(seed, x_stream, counter)
                         : (float)(art_random_u32(seed, x_stream, counter) * rows >> 32);
    }
    if (target == NULL) {
        return;
    }
    if (info.target_is_label) {
        uint64_t word = art_random_u32(seed, target_stream, index);
        *(int32_t *)target = (int32_t)(word * info.n_classes >> 32);
        return;
    }
    for (uint64_t i = 0; i < info.target_elements; i++) {
        uint64_t counter = index * info.target_elements + i;
        ((float *)target)[i] = random_target(&info.targets, seed, target_stream, counter);
    }
}

uint64_t art_shuffle(uint64_t seed, uint64_t epoch, uint64_t count, uint64_t position) {
    return art_permute(seed, art_stream_of_name("shuffle") + epoch, count, position);
}
