/* Kernel levels: one table of function pointers per level, chosen once when an engine opens.
 *
 * Every function in the table is a leaf: no allocation, no threads, no globals. `ops` split work
 * into tiles and call these. A value never depends on where its tile starts.
 *
 * The micro-kernel families and their exact contracts are declared in ukernel/<family>/; this
 * struct only gathers them. */
#ifndef ART_DISPATCH_LEVELS_H
#define ART_DISPATCH_LEVELS_H

#include <stdint.h>

#include "ukernel/ukernel.h"

typedef struct art_level {
    const char *name;     /* "c", "vec_sse2", ...: written to logs and checkpoints */
    uint32_t features;    /* ART_CPU_* bits that must be present */
    art_ukernels kernels; /* defined by ukernel/ukernel.h */
} art_level;

/* All levels compiled for this architecture, worst first; count in *n. */
const art_level *art_levels(unsigned *n);

/* The one named, without a name that of ARMTRAIN_CPU, without either the best that this processor
 * has. NULL if the name is unknown or this processor lacks the level. */
const art_level *art_level_select(const char *name);

#endif
