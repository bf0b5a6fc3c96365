/* render/cstyle.h: what the walker of cstyle.c has to know of a C-like language: tables of words.
 *
 * Words are templates. In them stand
 *   $0 $1 $2 $3  operands                    $t  the type of the result or memory
 *   $v           the value's or memory's name  $s  the type of operand 0
 *   $e           an expression               $u  the unsigned type as wide as $t
 *   $m           a memory's name             $q  its address space
 *   $i           the immediate               $x  "x", "y" or "z" by the immediate
 *   $w           the bits of the type less 1   $n  a count, or the kernel's name
 *   $V           the vector type of a wide access
 *   $a $b $c $d  the names that the immediate has: of fragments and memories
 *   $y  whether by columns, as a word          $h  whether from shared memory
 * A vector value is as many scalar variables: shader compilers take vectors apart anyway, and only
 * memory gains by wide accesses. */
#ifndef UM_RENDER_CSTYLE_H
#define UM_RENDER_CSTYLE_H

#include "render/render.h"

typedef struct um_dialect {
    um_target target;
    um_target like;       /* whose types and atomics it has, and words where it has none */
    bool is_c;            /* C's words are where both have none */
    const char *head;     /* what every text begins with */
    const char *infinite; /* f32 and f64 from bits: "as_float($iu)", "as_double($iul)" */
    const char *infinite64;
    const char *f32_suffix, *u32_suffix, *i64_suffix, *u64_suffix;

    /* Parameters: what stands before the function, in its brackets, at the begin of its body. */
    const char *buffer_before, *buffer_param, *buffer_begin;
    const char *scalar_param, *scalar_words; /* words: how it is read; NULL: its name */
    const char *struct_open, *struct_base, *struct_item,
        *struct_close; /* before the function; NULL: none */
    const char *struct_param, *builtin_params;
    const char *shared_before, *shared_begin; /* one of them */
    const char *function_open;

    const char *var_begin, *array_begin;
    const char *value, *later, *assign; /* const T v = e; T v = e; v = e; */
    const char *element;                /* $m[$0]; of a buffer `buffer_element`, where it differs */
    const char *buffer_element;
    const char *load_wide, *store_wide;
    const char *atomic_cas; /* gives whole statements */
    const char *atomic_load, *atomic_store,
        *atomic_type;     /* of memories with atomics; NULL: as others */
    const char *space[4]; /* by um_space */
    const char *if_open, *for_open, *loop_open;
    /* Before texts with fragments or asynchronous copies; NULL: the language has none. Whether it
     * says where a fragment's elements lie, and copies so. */
    const char *const *frag_head;
    bool frag_places, async_copies;
} um_dialect;

/* What C and its kin say alike. */
#define UM_FORMS_C                                                                                 \
    .f32_suffix = "f", .u32_suffix = "u", .var_begin = "$t $m;", .value = "const $t $v = $e;",     \
    .later = "$t $v = $e;", .assign = "$v = $e;", .element = "$m[$0]", .if_open = "if ($0) {",     \
    .for_open = "for ($t $v = $0; $v < $1; $v += $2) {", .loop_open = "for (;;) {"

/* cstyle_frag.c */
bool um_cstyle_is_frag(um_kop op);
/* What a text with such opcodes needs before it. The name of an opcode that it has not; or NULL. */
const char *um_cstyle_frag_head(const um_kernel *k, const um_dialect *d, um_text *out);
void um_cstyle_declare_frags(const um_kernel *k, um_text *out);
extern const char um_frag_common[];
extern const char *const um_frag_head_cuda[], *const um_frag_head_hip[],
                                                  *const um_frag_head_metal[];

extern const um_dialect um_dialect_opencl, um_dialect_cuda, um_dialect_hip, um_dialect_metal,
    um_dialect_wgsl;

#endif
