/* What the operations on rows of tables share. */
#ifndef ART_OPS_EMBEDDING_H
#define ART_OPS_EMBEDDING_H

#include "ops/check.h"

/* Columns of a table that belong to one tile, for as many as fill a cache line. */
enum { ART_COLUMNS_OF_TILE = 16 };

/* Slots of indices, of a table that lies turned or not, and of a row for each index. */
typedef struct art_table_slots {
    unsigned x, table, values, turned;
    const char *table_name, *values_name;
} art_table_slots;

/* Indices of any shape, a table of rows whose numbers are exact, and rows for the indices. */
art_status art_check_table(const art_op_args *args, const art_table_slots *at, art_error *err);

/* While running: every index is the number of one of `rows` rows. The engine refuses other batches
 * before anything is computed; this guards the table. */
art_status art_check_indices(const art_array *x, uint32_t rows, art_error *err);

#endif
