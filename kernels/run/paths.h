/* Are the files that a run writes other files than those it reads? Links do not hide it. */
#ifndef ART_RUN_PATHS_H
#define ART_RUN_PATHS_H

#include <stdbool.h>
#include <stddef.h>

#include "options.h"
#include "source.h"

/* False when an option that is written names the file of another one; `why` then names both. The
 * weights that a run starts from may be replaced by those that it ends with. */
bool run_paths_apart(const run_options *options, const run_spec *train, const run_spec *validation,
                     char *why, size_t why_bytes);

#endif
