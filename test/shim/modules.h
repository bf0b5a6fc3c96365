/* test/shim/modules.h: kernels' texts, compiled for the host many at a time, and found again. */
#ifndef UM_TEST_SHIM_MODULES_H
#define UM_TEST_SHIM_MODULES_H

#include "render/render.h"
#include "test/shim/shim.h"

typedef struct shim_text {
    uint64_t hash;
    bool is_metal;
    uint32_t targets; /* bits */
    char *text;       /* the function is called um_kernel in it */
    char name[64];    /* the kernel's; of others that differ in it alone, too */
    int32_t buffers, scalars;
    shim_kernel kernel; /* once it is compiled */
    struct shim_text *next;
} shim_text;

/* The lowered kernel's text, kept; the same one for the same text. From any thread. UNSUPPORTED:
 * the target has no words for it. */
um_status shim_text_of(const um_kernel *lowered, um_target target, const shim_text **out);

/* Compiles all texts that were kept, into `folder`, and loads them. What is there already of the
 * same texts, headers and command is not compiled again; what is not needed is removed.
 * IO_ERROR: a compiler's or loader's words were printed. */
um_status shim_compile(const char *folder);

typedef struct shim_counts {
    int32_t of_target[UM_TARGET_COUNT], texts, modules, compiled;
} shim_counts;
extern shim_counts shim_count;

void shim_release(void);

#endif
