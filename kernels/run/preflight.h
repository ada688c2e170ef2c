/* Before the first step: every sample is read once. Refuses values that are not finite, tells what
 * looks wrong, in the words of armtrain/data/preflight.py. */
#ifndef ART_RUN_PREFLIGHT_H
#define ART_RUN_PREFLIGHT_H

#include "options.h"
#include "source.h"

/* `training`: else they are for validation, and nothing is said about missing classes. */
art_status run_preflight(const run_source *source, const art_engine *engine,
                         const run_options *options, bool training, art_error *err);

#endif
