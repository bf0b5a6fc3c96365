/* test/onnx/ops.c: the table of ops.def. */
#include "base/base.h"
#include "handlers.h"

#include <string.h>

static const onnx_op ops[] = {
#define OP(name, handler, id, exact) {#name, handler, id, exact, NULL},
#define NO(name, reason)             {#name, NULL, UM_OP_NONE, false, reason},
#include "ops.def"
};

const onnx_op *onnx_find_op(const char *name)
{
    for (size_t i = 0; i < UM_COUNT_OF(ops); i++)
        if (strcmp(ops[i].name, name) == 0) return &ops[i];
    return NULL;
}
