#include "engine/kept.h"

#include <stdio.h>
#include <string.h>

uint32_t art_kept_next(const art_engine *engine, unsigned last_role, uint32_t previous) {
    const char *after = previous == ART_PLAN_NONE ? NULL : art_engine_tensor_name(engine, previous);
    uint32_t best = ART_PLAN_NONE;
    const char *best_name = NULL;
    for (uint32_t i = 0; i < art_engine_tensors(engine); i++) {
        if (art_engine_tensor(engine, i)->role > last_role) {
            continue;
        }
        const char *name = art_engine_tensor_name(engine, i);
        if ((after == NULL || strcmp(name, after) > 0) &&
            (best_name == NULL || strcmp(name, best_name) < 0)) {
            best = i;
            best_name = name;
        }
    }
    return best;
}

void art_shape_text(const uint32_t *dims, unsigned ndim, char *out, size_t out_bytes) {
    size_t used = 0;
    for (unsigned i = 0; i < ndim && used + 16 < out_bytes; i++) {
        used +=
            (size_t)snprintf(out + used, out_bytes - used, "%s%u", i == 0 ? "(" : ", ", dims[i]);
    }
    snprintf(out + used, out_bytes - used, ndim == 0 ? "()" : ndim == 1 ? ",)" : ")");
}
