/* Inputs that are numbers of rows of a table: which ones, and whether a batch has good ones. */
#ifndef ART_ENGINE_INDICES_H
#define ART_ENGINE_INDICES_H

#include "engine/engine.h"

/* Take the memory for that before the arena is compared with what is left: it is not planned, as
 * the plan's own bytes are not. */
art_status art_indices_reserve(art_engine *engine, art_error *err);

/* Find out which elements of a sample are indices, when a plan is opened. */
art_status art_indices_find(art_engine *engine, art_error *err);

/* ART_LABEL if one of n samples in the arena has an index that its table has no row for. */
art_status art_indices_check(const art_engine *engine, uint32_t input, uint32_t n, art_error *err);

#endif
