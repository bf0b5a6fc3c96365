/* cli/dump.c: `umbel dump`: the kernels that the library (src/kernel) makes of an op, as IR or as a
 * target's text. */
#include "cli/cli.h"
#include "kernel/library.h"
#include "render/render.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct dump {
    const char *op, *dtype, *shape, *target, *output, *arch;
    int64_t sample; /* -1: the first with something to write */
    bool least;
    enum { IR, TEXT, SPIRV } form;
    um_target text;
    const um_kunit *unit; /* of the arch; NULL: none */
    um_spirv_flavour flavour;
    FILE *file; /* where text goes */
} dump;

/* ---- which op ------------------------------------------------------------------------------- */

/* "64x64" into sizes; false: another form. *text is moved behind it. */
static bool read_shape(const char **text, um_view *view)
{
    view->rank = 0;
    do {
        char *end;
        const char *at = *text + (view->rank > 0);
        errno = 0;
        long long size = strtoll(at, &end, 10);
        if (*at < '0' || *at > '9' || errno || view->rank == UM_MAX_RANK) return false;
        view->shape[view->rank++] = size;
        *text = end;
    } while (**text == 'x');
    return true;
}

/* Gives the op's inputs (without any: its output) the shapes of --shape. */
static int set_shapes(const dump *d, um_op *op)
{
    um_view given[UM_OP_MAX_INPUTS];
    int32_t count = 0, wanted = 0;
    const char *at = d->shape;
    while (count < UM_OP_MAX_INPUTS && read_shape(&at, &given[count])) {
        count++;
        if (*at == '\0') break;
        if (*at++ != ',') break;
    }
    for (int32_t i = 0; i < op->in_count; i++) wanted += um_op_has_input(op, i);
    if (*at || count == 0)
        return cli_wrong_usage("--shape: got '%s', wanted sizes like 64x32 or 64x32,32", d->shape);
    if (count != 1 && count != wanted)
        return cli_wrong_usage("--shape: got %d shapes, wanted one, or one for each of %d inputs",
                               (int)count, (int)wanted);
    for (int32_t i = 0, n = 0; i < UM_MAX(op->in_count, 1); i++) {
        um_view *view = op->in_count > 0 ? &op->in[i] : &op->out[0];
        if (op->in_count > 0 && !um_op_has_input(op, i)) continue;
        const um_view *from = &given[count > 1 ? n++ : 0];
        if (um_view_make(0, view->dtype, from->rank, from->shape, view) != UM_OK)
            return cli_fail_status();
    }
    return um_op_infer(op) == UM_OK ? CLI_GO : cli_fail_status();
}

/* Places one behind the other, as if there were such memory. */
static int place(um_view *views, int32_t count, um_ptr *at)
{
    for (int32_t i = 0; i < count; i++) {
        size_t size;
        if (um_dtype_size(views[i].dtype, um_view_count(&views[i]), &size) != UM_OK)
            return cli_fail_status();
        views[i].ptr = *at;
        *at += (size + 255) / 256 * 256;
    }
    return CLI_GO;
}

/* f32, or the first dtype that the op has. */
static um_dtype usual_dtype(const um_op_row *row)
{
    um_dtype dtype = UM_F32;
    if (!(row->dtypes & UM_BIT(dtype)))
        for (dtype = 1; !(row->dtypes & UM_BIT(dtype));) dtype++;
    return dtype;
}

static int find_sample(const dump *d, const um_op_row *row, um_dtype dtype, um_sample *sample)
{
    for (int32_t index = (int32_t)UM_MAX(d->sample, 0);; index++) {
        *sample = (um_sample){.op.id = row->id};
        if (!row->sample(index, dtype, sample))
            return cli_fail("%s/%s has no sample %d", row->name, um_dtype_name(dtype), (int)index);
        if (d->sample >= 0 || um_view_count(&sample->op.out[0]) > 0) return CLI_GO;
    }
}

static int find_op(const dump *d, um_sample *sample)
{
    const um_op_row *row = um_op_get_row(um_op_find(d->op));
    if (!row) return cli_fail("there is no op '%s'", d->op);
    um_dtype dtype = d->dtype ? um_dtype_find(d->dtype) : usual_dtype(row);
    if (dtype == UM_DTYPE_NONE) return cli_wrong_usage("there is no dtype '%s'", d->dtype);
    if (!(row->dtypes & UM_BIT(dtype)))
        return cli_fail("%s is not for %s", row->name, um_dtype_name(dtype));
    um_op *op = &sample->op;
    um_ptr at = 4096;
    char why[200];
    int code = find_sample(d, row, dtype, sample);
    if (code == CLI_GO && d->shape) code = set_shapes(d, op);
    if (code == CLI_GO) code = place(op->in, op->in_count, &at);
    if (code == CLI_GO) code = place(op->out, op->out_count, &at);
    if (code != CLI_GO) return code;
    if (um_op_check(op) != UM_OK) return cli_fail_status();
    if (um_view_count(&op->out[0]) == 0) return cli_fail("%s has nothing to write", row->name);
    return um_kplan_supports(op, why, sizeof why) ? CLI_GO : cli_fail("%s", why);
}

/* ---- what is printed ------------------------------------------------------------------------ */

static void show_scalar(const dump *d, const um_kscalar *scalar, uint32_t bits)
{
    float real;
    memcpy(&real, &bits, sizeof real);
    fprintf(d->file, " %s = ", scalar->name);
    if (scalar->dtype == UM_F32)
        fprintf(d->file, "%.9g", (double)real);
    else if (scalar->dtype == UM_I32)
        fprintf(d->file, "%d", (int)bits);
    else
        fprintf(d->file, "%u", bits);
}

static void show_head(const dump *d, const um_klaunch *launch, int32_t index, int32_t count)
{
    const char *mark = d->form == TEXT ? "//" : ";";
    const uint32_t *groups = launch->group_count;
    const um_kernel *k = launch->kernel;
    fprintf(d->file, "%s launch %d of %d: %u x %u x %u groups\n", mark, (int)index + 1, (int)count,
            groups[0], groups[1], groups[2]);
    for (int32_t m = 0, i = 0; i < launch->buffer_count; m++) {
        if (k->mem[m].space != UM_SPACE_BUFFER) continue;
        const um_kbinding *b = &launch->buffer[i++];
        fprintf(d->file, "%s %s: %llu bytes%s\n", mark, k->mem[m].name,
                (unsigned long long)b->size_bytes, b->scratch ? " of scratch" : "");
    }
    fprintf(d->file, "%s", mark);
    for (int32_t i = 0; i < launch->scalar_count; i++)
        show_scalar(d, &k->scalar[i], launch->scalar[i]);
    fprintf(d->file, "\n");
}

static int write_all(const char *path, FILE *file, const void *data, size_t size)
{
    if (fwrite(data, 1, size, file) == size) return CLI_GO;
    return path ? cli_fail("%s: %s", path, strerror(errno)) : CLI_GO; /* main.c sees stdout's */
}

static FILE *open_output(const char *path)
{
    FILE *file = fopen(path, "wb");
    if (!file) cli_fail("%s: %s", path, strerror(errno));
    return file;
}

static int close_output(const char *path, FILE *file, int code)
{
    if (fclose(file) != 0 && code == CLI_GO) code = cli_fail("%s: %s", path, strerror(errno));
    return code;
}

/* A file for each launch: PATH, PATH.2, ... */
static int write_module(const dump *d, const um_text *words, int32_t index)
{
    char path[1024];
    int length = index == 0 ? snprintf(path, sizeof path, "%s", d->output)
                            : snprintf(path, sizeof path, "%s.%d", d->output, (int)index + 1);
    if (length >= (int)sizeof path) return cli_wrong_usage("--output: the name is too long");
    FILE *file = open_output(path);
    if (!file) return CLI_FAILED;
    int code = write_all(path, file, words->data, (size_t)words->size);
    code = close_output(path, file, code);
    if (code == CLI_GO) printf("%s: %lld bytes\n", path, (long long)words->size);
    return code;
}

static int show_ir(const dump *d, const um_kernel *kernel)
{
    char *text;
    if (um_kernel_print(kernel, &text) != UM_OK) return cli_fail_status();
    int code = write_all(d->output, d->file, text, strlen(text));
    um_kernel_text_free(text);
    return code;
}

static int show_rendered(const dump *d, const um_kernel *kernel, int32_t index)
{
    um_kernel *lowered;
    um_text out = {0};
    uint32_t types = d->least ? 0 : UINT32_MAX, size = d->least ? 0 : 32;
    if (d->unit) size = d->unit->subgroup;
    um_klacks lacks = d->form == TEXT ? um_text_lacks(d->text, types, size)
                                      : um_spirv_flavour_lacks(d->flavour, types, size);
    if (d->unit) um_lacks_no_unit(&lacks, d->unit);
    um_status status = um_kernel_lower(kernel, &lacks, &lowered);
    if (status == UM_OK)
        status = d->form == TEXT ? um_render_text(lowered, d->text, &out)
                                 : um_render_spirv(lowered, d->flavour, 0, &out);
    int code = status != UM_OK    ? cli_fail_status()
               : d->form == SPIRV ? write_module(d, &out, index)
                                  : write_all(d->output, d->file, out.data, (size_t)out.size);
    um_text_release(&out);
    um_kernel_release(lowered);
    return code;
}

static int show_plan(const dump *d, const um_kplan *plan)
{
    int code = CLI_GO;
    for (int32_t i = 0; i < plan->launch_count && code == CLI_GO; i++) {
        if (d->form != SPIRV) show_head(d, &plan->launch[i], i, plan->launch_count);
        if (i > 0 && plan->launch[i].kernel == plan->launch[i - 1].kernel) continue;
        code = d->form == IR ? show_ir(d, plan->launch[i].kernel)
                             : show_rendered(d, plan->launch[i].kernel, i);
    }
    return code;
}

/* ---- the verb ------------------------------------------------------------------------------- */

static int find_target(dump *d)
{
    d->form = TEXT;
    for (int32_t i = 0; i < UM_TARGET_COUNT; i++) {
        d->text = (um_target)i;
        if (strcmp(d->target, um_target_name(d->text)) == 0) return CLI_GO;
    }
    d->form = strcmp(d->target, "ir") == 0 ? IR : SPIRV;
    d->flavour = strcmp(d->target, "spirv") == 0           ? UM_SPIRV_VULKAN
                 : strcmp(d->target, "spirv-address") == 0 ? UM_SPIRV_VULKAN_ADDRESS
                                                           : UM_SPIRV_KERNEL;
    if (d->form == IR) return CLI_GO;
    if (d->flavour == UM_SPIRV_KERNEL && strcmp(d->target, "spirv-kernel") != 0)
        return cli_wrong_usage("--target: got '%s', see umbel dump --help", d->target);
    return d->output ? CLI_GO : cli_wrong_usage("SPIR-V is no text: --output FILE says where to");
}

static int find_unit(dump *d)
{
    if (d->form == TEXT) d->unit = um_arch_unit(d->text, d->arch);
    if (d->form == SPIRV && d->flavour != UM_SPIRV_KERNEL) d->unit = um_spirv_arch_unit(d->arch);
    return d->unit ? CLI_GO
                   : cli_fail("--arch: no matrix tiles of '%s' for target %s are known", d->arch,
                              d->target);
}

static int run_dump(dump *d)
{
    um_sample sample;
    um_kplan plan;
    int code = find_target(d);
    if (code == CLI_GO && d->arch) code = find_unit(d);
    if (code == CLI_GO) code = find_op(d, &sample);
    if (code != CLI_GO) return code;
    bool to_file = d->output && d->form != SPIRV;
    d->file = to_file ? open_output(d->output) : stdout;
    if (!d->file) return CLI_FAILED;
    code = um_kplan_make(&sample.op, d->unit, 0, &plan) == UM_OK ? show_plan(d, &plan)
                                                                 : cli_fail_status();
    um_kplan_release(&plan);
    if (to_file) code = close_output(d->output, d->file, code);
    return code == CLI_GO ? CLI_DONE : code;
}

int cli_dump(int argc, char **argv)
{
    dump d = {.target = "ir", .sample = -1};
    const cli_option options[] = {
        {.name = "OP", .kind = CLI_ARG, .out = &d.op, .required = true, .doc = "an op's name"},
        {.name = "dtype",
         .kind = CLI_TEXT,
         .value = "D",
         .out = &d.dtype,
         .doc = "of the main input; default: f32, or the first that the op has"},
        {.name = "sample",
         .kind = CLI_INT,
         .value = "N",
         .out = &d.sample,
         .min = 0,
         .max = INT32_MAX,
         .doc = "of the op's test samples; default: the first with something to write"},
        {.name = "shape",
         .kind = CLI_TEXT,
         .value = "S",
         .out = &d.shape,
         .doc = "64x64 for all of the sample's inputs, or 64x32,32x16 one for each"},
        {.name = "target",
         .kind = CLI_TEXT,
         .value = "T",
         .out = &d.target,
         .doc = "ir, opencl, cuda, hip, metal, wgsl, spirv (Vulkan), spirv-address "
                "(Vulkan, memory by address), spirv-kernel (OpenCL); default: ir"},
        {.name = "arch",
         .kind = CLI_TEXT,
         .value = "A",
         .out = &d.arch,
         .doc = "with the matrix unit of that processor: sm_80, sm_90, gfx942, gfx1100, apple7; "
                "spirv: khr"},
        {.name = "least",
         .kind = CLI_FLAG,
         .out = &d.least,
         .doc = "for a device without subgroups and types that a target may lack"},
        {.name = "output",
         .kind = CLI_TEXT,
         .value = "FILE",
         .out = &d.output,
         .doc = "write there; SPIR-V: a further launch to FILE.2, ..."},
    };
    const cli_command command = {
        .name = "dump",
        .summary = "Print the kernels of an op, as IR or as a target's source.",
        .details = "What the kernel library makes of the op: each launch with its work-groups, "
                   "memory and scalars.\n",
        .options = options,
        .option_count = 8};
    int code = cli_parse(&command, argc, argv);
    return code == CLI_GO ? run_dump(&d) : code;
}
