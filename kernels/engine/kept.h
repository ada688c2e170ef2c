/* Kept tensors in the order in which files store them: ascending names, byte by byte. */
#ifndef ART_ENGINE_KEPT_H
#define ART_ENGINE_KEPT_H

#include "engine/engine.h"

/* The kept tensor of role <= last_role that follows `previous` (ART_PLAN_NONE: the first) in the
 * order of names; ART_PLAN_NONE after the last. Needs no memory, so it searches each time. */
uint32_t art_kept_next(const art_engine *engine, unsigned last_role, uint32_t previous);

/* The user's shape as "(6, 1, 5, 5)". */
void art_shape_text(const uint32_t *dims, unsigned ndim, char *out, size_t out_bytes);

#endif
