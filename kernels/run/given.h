/* What a run is given, as sums in its checkpoints, so that a resume can tell what is other. The
 * Python package computes the same sums in armtrain/runtime/given.py. */
#ifndef ART_RUN_GIVEN_H
#define ART_RUN_GIVEN_H

#include "loop.h"

/* Note for the checkpoints to come what this run is given; tell what a resumed one lacks. */
void run_compare_given(run_loop *loop);

#endif
