/* check/inside.h: what the driver's files share: views of memory (layout.c), values (values.c), one
 * case (case.c), what a device does beside ops (device.c). driver.c walks the table.
 */
#ifndef UM_CHECK_INSIDE_H
#define UM_CHECK_INSIDE_H

#include "check/check.h"
#include "check/oracle.h"
#include "op/table.h"

/* ---- random numbers: splitmix64 -------------------------------------------------------------- */

typedef struct um_rng {
    uint64_t state;
} um_rng;
um_rng um_rng_make(uint64_t seed, const char *name);
uint64_t um_rng_next(um_rng *rng);
int64_t um_rng_below(um_rng *rng, int64_t n); /* n >= 1 */
double um_rng_unit(um_rng *rng);              /* [0, 1) */

/* ---- layout.c: where the elements of a view lie ---------------------------------------------- */

typedef enum um_layout_kind {
    UM_LAYOUT_PACKED,
    UM_LAYOUT_TRANSPOSED, /* the first axis is the innermost */
    UM_LAYOUT_SLICED,     /* every second element, rows apart, not at the start */
    UM_LAYOUT_NEGATIVE,   /* back to front */
    UM_LAYOUT_BROADCAST,  /* stride 0 on the first axis that has more than one element */
    UM_LAYOUT_MIXED_IN,   /* order, gaps, direction and repetition at random */
    UM_LAYOUT_MIXED_OUT   /* the same without repetition */
} um_layout_kind;

/* A block of `slots` element slots; element 0 is in slot `first`. */
typedef struct um_layout {
    int64_t stride[UM_MAX_RANK];
    int64_t first, slots;
} um_layout;
void um_layout_make(um_layout_kind kind, const um_view *view, um_rng *rng, um_layout *out);
/* The slot of each element, in row-major order. */
void um_layout_slots(const um_layout *layout, const um_view *view, int64_t *slots);

/* Host bytes of a block, with guard bytes at both ends, and the element slots in it. */
typedef struct um_image {
    uint8_t *bytes;
    size_t size_bytes, guard_bytes;
    int32_t bits; /* of a slot */
} um_image;
bool um_image_make(um_image *image, int32_t bits, int64_t slots, size_t guard_bytes, uint8_t fill);
void um_image_free(um_image *image);
uint64_t um_image_get(const um_image *image, int64_t slot);
void um_image_set(um_image *image, int64_t slot, uint64_t bits);

/* ---- values.c: what the inputs hold ---------------------------------------------------------- */

typedef enum um_round {
    UM_ROUND_RANDOM,    /* in the sample's ranges */
    UM_ROUND_TIES,      /* few different numbers: halves and zeros of both signs */
    UM_ROUND_SPECIALS,  /* half of them NaN, inf, extremes, zeros */
    UM_ROUND_RARE,      /* one in a row or two of those */
    UM_ROUND_BAD_INDEX, /* some indices out of range */
    UM_ROUND_COUNT
} um_round;
const char *um_round_name(um_round round);
/* A value for input `input` of the sample. */
um_num um_value_make(const um_sample *sample, int32_t input, um_round round, um_rng *rng);

/* ---- flush.c: devices that take subnormal numbers of f32 for 0 --------------------------------
 */

bool um_device_flushes(um_device *device);
/* What such a device is given, and whether what it gave counts. */
um_num um_value_flushed(const um_sample *sample, um_dtype dtype, um_round round, um_num value);
bool um_expect_flushed(const um_sample *sample, const um_expect *expect, um_dtype dtype,
                       um_num got);

/* ---- case.c: one case ------------------------------------------------------------------------ */

typedef enum um_variant {
    UM_VARIANT_PACKED,
    UM_VARIANT_TRANSPOSED,
    UM_VARIANT_SLICED,
    UM_VARIANT_STRIDED_OUT,
    UM_VARIANT_NEGATIVE,
    UM_VARIANT_BROADCAST,
    UM_VARIANT_MIXED,
    UM_VARIANT_IN_PLACE,
    UM_VARIANT_COUNT
} um_variant;
const char *um_variant_name(um_variant variant);

typedef struct um_case {
    const um_op_row *row;
    const um_sample *sample;
    um_variant variant;
    um_round round;
    const char *name;
    um_stream *stream;
    const um_check_options *options;
    bool flushes; /* the device */
} um_case;

/* The input that the output may lie on, or -1. */
int32_t um_case_in_place_input(const um_op *op);
/* Runs it; detail gets the failure's or the skip's reason. The digest takes in the output's bits.
 * OUT_OF_MEMORY: the host has no room. */
um_status um_case_run(const um_case *it, um_check_outcome *outcome, char *detail,
                      size_t detail_size, uint64_t *digest);

/* ---- device.c: what a device does beside ops ---------------------------------------------------
 */

/* "device/memory", ...; NULL past the last. */
const char *um_device_case_name(int32_t index);
/* OUT_OF_MEMORY (of the host) is the only failure; detail as of um_check_case. */
um_status um_device_case_run(int32_t index, const um_check_options *options,
                             um_check_outcome *outcome, char *detail, size_t detail_size);

#endif
