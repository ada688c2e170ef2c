"""What the extension module uses of the C library."""

from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t


cdef extern from "armtrain.h" nogil:
    ctypedef enum art_status:
        ART_OK

    ctypedef struct art_error:
        char text[512]

    ctypedef struct art_engine:
        pass

    ctypedef struct art_options:
        uint64_t seed
        uint32_t threads
        uint32_t poison
        const char *kernel_level
        uint32_t ignore_memory
        uint64_t beside_bytes

    ctypedef struct art_run_state:
        uint64_t seed
        uint64_t step
        uint64_t epoch
        uint64_t position
        double loss_counted
        double loss_sum
        double learning_rate_scale
        uint64_t n_train

    ctypedef struct art_target_range:
        double low
        double high
        double step
        double ignored
        uint32_t shares
        const char *way

    ctypedef struct art_info:
        uint64_t arena_bytes
        uint32_t batch_size
        uint32_t threads
        uint32_t n_tensors
        uint32_t n_steps
        uint32_t target_is_label
        uint32_t n_classes
        int32_t ignored_label
        art_target_range targets
        uint64_t input_elements
        uint64_t target_elements
        uint64_t output_elements
        const char *kernel_level
        uint8_t model_hash[32]

    const char *art_version()
    art_status art_engine_open(art_engine **engine, const void *plan, size_t plan_bytes,
                               const art_options *options, art_error *err)
    void art_engine_close(art_engine *engine)
    void art_engine_info(const art_engine *engine, art_info *info)
    void art_engine_index_limits(const art_engine *engine, uint32_t *limits)
    uint64_t art_engine_resident_bytes(const art_engine *engine)
    art_status art_engine_initialize(art_engine *engine, art_error *err)
    art_status art_engine_train_step(art_engine *engine, const float *x, const void *target,
                                     uint32_t n, double *loss, art_error *err)
    art_status art_engine_evaluate_step(art_engine *engine, const float *x, const void *target,
                                        uint32_t n, double *loss, uint64_t *correct,
                                        art_error *err)
    double art_engine_counted(const art_engine *engine)
    art_status art_engine_predict_step(art_engine *engine, const float *x, uint32_t n, float *out,
                                       art_error *err)
    void art_engine_get_state(const art_engine *engine, art_run_state *state)
    void art_engine_set_state(art_engine *engine, const art_run_state *state)
    art_status art_engine_read(const art_engine *engine, const char *name, void *out,
                               size_t n_bytes, art_error *err)
    art_status art_engine_write(art_engine *engine, const char *name, const void *data,
                                size_t n_bytes, art_error *err)
    art_status art_engine_peek(const art_engine *engine, uint32_t tensor, void *out,
                               size_t n_bytes, art_error *err)
    art_status art_engine_poke(art_engine *engine, uint32_t tensor, const void *data,
                               size_t n_bytes, art_error *err)
    art_status art_engine_run_steps(art_engine *engine, uint32_t first, uint32_t last, uint32_t n,
                                    art_error *err)
    art_status art_engine_save_best(const art_engine *engine, const char *path,
                                    const char *metadata, art_error *err)
    art_status art_engine_check_best(const art_engine *engine, const char *path, art_error *err)
    void art_engine_time_steps(art_engine *engine, uint64_t *nanoseconds)
    art_status art_engine_save_safetensors_with(const art_engine *engine, const char *path,
                                                const char *metadata, art_error *err)
    art_status art_engine_load_safetensors(art_engine *engine, const char *path, art_error *err)
    art_status art_checkpoint_save_held(const art_engine *engine, const char *directory, int held,
                                        uint32_t keep, art_error *err)
    art_status art_checkpoint_load(art_engine *engine, const char *directory, char *note,
                                   size_t note_bytes, art_error *err)
    void art_random_sample(const art_engine *engine, uint64_t seed, uint64_t index, float *x,
                           void *target)
    uint64_t art_shuffle(uint64_t seed, uint64_t epoch, uint64_t count, uint64_t position)

cdef extern from "engine/schedule.h" nogil:
    enum:
        ART_SCHEDULE_VALUES
        ART_SCHEDULE_MILESTONES

    ctypedef struct art_schedule_kind:
        pass

    ctypedef struct art_schedule:
        const art_schedule_kind *kind
        bint per_step
        double values[5]
        uint64_t milestones[16]
        unsigned int n_milestones

    const art_schedule_kind *art_schedule_find(const char *word)
    double art_schedule_scale(const art_schedule *schedule, uint64_t epoch, uint64_t step,
                              double plateau)


cdef extern from "engine/monitor.h" nogil:
    ctypedef struct art_monitor:
        uint32_t quantity
        uint32_t plateau_quantity
        uint32_t plateau_bad
        uint32_t plateau_cooldown
        uint64_t epoch
        uint64_t best_epoch
        double best
        double plateau_best
        double plateau_scale
        uint32_t schedule_crc32
        uint32_t data_crc32

    art_monitor art_monitor_fresh()
    bint art_monitor_epoch(art_monitor *monitor, uint32_t quantity, double value, uint64_t epoch,
                           const art_schedule *plateau)
    bint art_monitor_exhausted(const art_monitor *monitor, uint32_t quantity, uint64_t epoch,
                               uint64_t patience)
    void art_engine_get_monitor(const art_engine *engine, art_monitor *monitor)
    void art_engine_set_monitor(art_engine *engine, const art_monitor *monitor)


cdef extern from "engine/augment.h" nogil:
    ctypedef struct art_augment:
        bint flip
        uint32_t shift
        uint32_t crop
        float noise

    art_status art_augment_check(const art_augment *what, const uint32_t *shape, unsigned ndim,
                                 uint32_t *chw, art_error *err)
    int art_engine_set_augment(art_engine *engine, const art_augment *what, art_error *err)
    void art_augment_sample(const art_augment *what, const uint32_t *chw, uint64_t seed,
                            uint64_t epoch, uint64_t sample, const float *source, float *to)


cdef extern from "core/cpu.h" nogil:
    uint32_t art_cpu_features()
    unsigned int art_cpu_usable()


cdef extern from "core/memory.h" nogil:
    uint64_t art_memory_available(const char **limit)


cdef extern from "core/crc32.h" nogil:
    uint32_t art_crc32(uint32_t crc, const void *data, size_t n_bytes)


cdef extern from "ukernel/roof/roof.h" nogil:
    ctypedef struct art_roof:
        uint32_t flop
        float (*run)(uint64_t rounds) noexcept nogil

    const art_roof *art_roof_find(const char *level)


cdef extern from "ops/ops.h" nogil:
    enum:
        ART_MAX_DIMS
        ART_MAX_OPERANDS

    ctypedef struct art_level:
        const char *name

    ctypedef struct art_array:
        uint64_t bytes
        uint32_t dims[6]
        uint8_t ndim

    ctypedef union art_attr:
        int64_t i
        double f

    ctypedef struct art_op_args:
        art_array operand[10]
        const art_attr *attr
        unsigned n_attrs
        unsigned int n_operands
        unsigned int threads

    ctypedef uint64_t (*art_op_workspace)(const art_op_args *args) noexcept

    ctypedef struct art_attr_spec:
        const char *name
        char kind

    ctypedef struct art_op:
        uint8_t n_operands
        uint8_t n_attrs
        uint8_t tail
        const art_attr_spec *attr
        art_op_workspace workspace

    const art_op *art_op_find(unsigned int code)
    const art_level *art_levels(unsigned int *n)
    const art_level *art_level_select(const char *name)
