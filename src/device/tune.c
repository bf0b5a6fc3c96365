/* device/tune.c: forms by timing, and the file that keeps them: a line each, "FORM CLASS", behind
 * three that say whose they are: the library, the device, its driver. */
#include "device/tune.h"
#include "device/disk.h"
#include "op/table.h"

#include <stdio.h>

enum { CLASS = 256, PATH = 1024, PART_FIRST = 1 << 14, PART_GROWS = 4 };

typedef struct known {
    char class[CLASS];
    int32_t form;
    bool timed; /* by this process */
} known;

typedef enum tune_mode { TUNE_OFF, TUNE_ON, TUNE_FORCE } tune_mode;

struct um_tune {
    um_tune_desc desc;
    um_mutex lock; /* of what follows; held while it times */
    tune_mode mode;
    char path[PATH]; /* "": none */
    char head[CLASS + 64], driver[64];
    known *known;
    int64_t count, capacity;
};

/* ---- classes of shapes ------------------------------------------------------------------------
 */

/* "matmul f32:9.9+1 f32:9.8+0 > f32:9.8+1": sizes by their power of two, and the axis along which
 * elements lie next to each other. */
static void class_of(const um_op *op, char text[CLASS])
{
    int32_t used = snprintf(text, CLASS, "%s", um_op_name(op->id));
    for (int32_t i = 0; i < op->in_count + op->out_count; i++) {
        const um_view *v = i < op->in_count ? &op->in[i] : &op->out[i - op->in_count];
        char one[64] = "";
        int32_t n = 0, next = -1;
        for (int32_t axis = 0; axis < v->rank; axis++) {
            int32_t log2 = 0;
            while (log2 < 62 && ((int64_t)1 << log2) < v->shape[axis]) log2++;
            n += snprintf(one + n, sizeof one - (size_t)n, "%c%d", axis ? '.' : ':', (int)log2);
            if (v->stride[axis] == 1 && v->shape[axis] > 1) next = axis;
        }
        if (used < CLASS)
            used +=
                snprintf(text + used, (size_t)(CLASS - used), "%s %s%s%+d",
                         i == op->in_count ? " >" : "", um_dtype_name(v->dtype), one, (int)next);
    }
}

static known *find(const um_tune *t, const char *class)
{
    for (int64_t i = 0; i < t->count; i++)
        if (strcmp(t->known[i].class, class) == 0) return &t->known[i];
    return NULL;
}

static um_status learn(um_tune *t, const known *k)
{
    known *old = find(t, k->class);
    if (!old) {
        UM_TRY(um_vec_reserve((void **)&t->known, &t->capacity, t->count, sizeof *k, "um_tune"));
        old = &t->known[t->count++];
    }
    *old = *k;
    return UM_OK;
}

/* ---- the file ---------------------------------------------------------------------------------
 */

static void set_path(um_tune *t, um_device_kind kind, const char *device)
{
    char name[CLASS], dir[PATH - CLASS];
    um_disk_device(kind, device, false, name, sizeof name);
    snprintf(t->head, sizeof t->head, "umbel tune %d.%d.%d\n%s\n", UM_VERSION_MAJOR,
             UM_VERSION_MINOR, UM_VERSION_PATCH, name);
    um_disk_device(kind, device, true, name, sizeof name);
    if (um_env_cache_dir(dir, sizeof dir)) snprintf(t->path, PATH, "%s/tune-%.200s", dir, name);
}

/* Reads "FORM CLASS"; false: it is something else. */
static bool read_line(const char *line, size_t length, known *out)
{
    *out = (known){.form = length < 3 ? 0 : line[0] - '0'};
    if (out->form < 1 || out->form > 9 || line[1] != ' ' || length - 2 >= CLASS) return false;
    memcpy(out->class, line + 2, length - 2);
    return true;
}

/* What of the file is not known yet; of one that begins otherwise nothing. any: whatever driver. */
static void load(um_tune *t, bool any)
{
    um_file file;
    um_error before = *um_last_error();
    size_t head = strlen(t->head);
    if (t->path[0] && um_file_open(t->path, &file) == UM_OK) {
        const char *at = (const char *)file.data, *line;
        size_t left = (size_t)file.size_bytes;
        bool ours = left >= head && memcmp(at, t->head, head) == 0, first = true;
        for (at += ours ? head : 0, left -= ours ? head : 0;
             ours && (line = memchr(at, '\n', left)) != NULL; first = false) {
            size_t length = (size_t)(line - at);
            known k;
            if (first)
                ours = any || (length == strlen(t->driver) && memcmp(at, t->driver, length) == 0);
            else if (read_line(at, length, &k) && !find(t, k.class) && learn(t, &k) != UM_OK)
                break;
            left -= length + 1;
            at = line + 1;
        }
        um_file_close(&file);
    }
    um_fail_again(&before);
}

/* With what other processes wrote meanwhile. */
static void save(um_tune *t)
{
    um_error before = *um_last_error();
    if (!t->path[0]) return;
    load(t, false);
    size_t room = sizeof t->head + sizeof t->driver + (size_t)t->count * (CLASS + 4), used;
    char *text = um_mem_alloc(room);
    if (text) {
        used = (size_t)snprintf(text, room, "%s%s\n", t->head, t->driver);
        for (int64_t i = 0; i < t->count; i++)
            if (t->known[i].form)
                used += (size_t)snprintf(text + used, room - used, "%d %s\n", (int)t->known[i].form,
                                         t->known[i].class);
        (void)um_file_replace(t->path, text, used); /* without it the next process times again */
    }
    um_mem_free(text);
    um_fail_again(&before);
}

/* ---- timing -----------------------------------------------------------------------------------
 */

static int64_t now(const um_tune *t)
{
    return t->desc.now_ns ? t->desc.now_ns(t->desc.ctx) : um_os_now_ns();
}

/* A part of the op of about so many elements; true: all of it. */
static bool take_part(const um_op *op, int64_t elements, um_op *part)
{
    bool whole = true;
    memcpy(part, op, offsetof(um_op, in) + (size_t)op->in_count * sizeof op->in[0]);
    while (um_view_count(&part->out[0]) > elements) {
        int32_t best = -1;
        um_op smaller;
        for (int32_t axis = 0; axis < op->out[0].rank; axis++) {
            int64_t size = part->out[0].shape[axis];
            if (size < 2 || !um_op_part(part, axis, 0, (size + 1) / 2, &smaller)) continue;
            if (best < 0 || size > part->out[0].shape[best]) best = axis;
        }
        if (best < 0 || !um_op_part(part, best, 0, (part->out[0].shape[best] + 1) / 2, &smaller))
            break;
        *part = smaller;
        whole = false;
    }
    return whole;
}

/* The fastest of the forms; 0: there was no time to compare any. No form is begun that, if it takes
 * as long as the slowest before it, would be over the budget. */
static int32_t measure(um_tune *t, const um_op *op, int32_t form_count, int64_t budget)
{
    int64_t begin = now(t), slowest = 0, best_ns = 0, ns = 0;
    int32_t best = 0, timed = 0;
    um_op part;
    bool grow = true;
    for (int64_t elements = PART_FIRST; grow; elements *= PART_GROWS) {
        bool whole = take_part(op, elements, &part);
        int64_t start = now(t);
        if (t->desc.time(t->desc.ctx, &part, 1, &ns) != UM_OK) return 0;
        slowest = now(t) - start;
        /* the next size for all forms, each run twice */
        grow = !whole && now(t) - begin + 2 * PART_GROWS * ns * (form_count + 1) <= budget;
    }
    for (int32_t form = 1; form <= form_count; form++) {
        int64_t start = now(t);
        if (form > 1) {
            if (start - begin > budget - slowest) break;
            if (t->desc.time(t->desc.ctx, &part, form, &ns) != UM_OK) continue;
        }
        slowest = UM_MAX(slowest, now(t) - start);
        if (timed++ == 0 || ns < best_ns) best = form, best_ns = ns;
    }
    return timed > 1 ? best : 0;
}

int32_t um_tune_choose(um_tune *t, const um_op *op, int32_t form_count)
{
    known k = {.timed = true};
    um_error before = *um_last_error();
    if (t->mode == TUNE_OFF) return 0;
    class_of(op, k.class);
    um_mutex_lock(&t->lock);
    const known *found = find(t, k.class);
    if (found && (found->timed || t->mode != TUNE_FORCE)) {
        k.form = found->form <= form_count ? found->form : 0;
    } else {
        k.form =
            measure(t, op, form_count, t->mode == TUNE_FORCE ? INT64_MAX / 2 : UM_TUNE_BUDGET_NS);
        if (learn(t, &k) == UM_OK && k.form) save(t);
    }
    um_mutex_unlock(&t->lock);
    um_fail_again(&before);
    return k.form;
}

/* ---- on a device ------------------------------------------------------------------------------
 */

static um_status run(const um_tune_device *d, um_backend_stream *stream, const um_op *op,
                     int32_t form)
{
    UM_TRY(d->enqueue(stream, op, form));
    return d->backend->synchronize(stream, UINT64_MAX);
}

/* Zeros: what is in memory does not change how long a product takes. */
static um_status time_at(const um_tune_device *d, um_backend_stream *stream, um_op *op,
                         int32_t form, um_ptr memory, uint64_t bytes, int64_t *ns)
{
    um_ptr at = memory;
    for (int32_t i = 0; i < op->out_count + op->in_count; i++) {
        um_view *v = i < op->out_count ? &op->out[i] : &op->in[i - op->out_count];
        int64_t low, high;
        um_view_extent(v, &low, &high);
        v->ptr = at + (um_ptr)-low;
        at += ((um_ptr)(high - low) + 255) & ~(um_ptr)255;
    }
    UM_TRY(d->backend->fill(stream, memory, bytes, 0, 4));
    UM_TRY(run(d, stream, op, form));
    int64_t start = um_os_now_ns();
    UM_TRY(run(d, stream, op, form));
    *ns = um_os_now_ns() - start;
    return UM_OK;
}

um_status um_tune_time(void *ctx, const um_op *op, int32_t form, int64_t *ns)
{
    const um_tune_device *d = ctx;
    uint64_t bytes = 256;
    um_op own;
    um_ptr memory;
    um_backend_stream *stream;
    memcpy(&own, op, offsetof(um_op, in) + (size_t)op->in_count * sizeof op->in[0]);
    for (int32_t i = 0; i < op->out_count + op->in_count; i++) {
        const um_view *v = i < op->out_count ? &op->out[i] : &op->in[i - op->out_count];
        int64_t low, high;
        if (!um_view_extent(v, &low, &high)) return UM_FAIL(UM_OUT_OF_RANGE, "um_tune: too large");
        bytes += ((uint64_t)(high - low) + 255) & ~(uint64_t)255;
    }
    UM_TRY(d->backend->alloc(d->device, bytes, &memory));
    um_status status = d->backend->stream_create(d->device, &stream);
    if (status == UM_OK) {
        status = time_at(d, stream, &own, form, memory, bytes, ns);
        d->backend->stream_destroy(stream);
    }
    d->backend->free(d->device, memory);
    return status;
}

/* ---- life -------------------------------------------------------------------------------------
 */

static tune_mode wanted_mode(bool on)
{
    const char *text = um_env_get(UM_ENV_TUNE);
    if (text && strcmp(text, "force") == 0) return TUNE_FORCE;
    if (text) return strcmp(text, "on") == 0 ? TUNE_ON : TUNE_OFF;
    return on ? TUNE_ON : TUNE_OFF;
}

um_status um_tune_create(const um_tune_desc *desc, um_tune **out)
{
    *out = NULL;
    um_tune *t = um_mem_zalloc(sizeof *t);
    if (!t) return UM_FAIL(UM_OUT_OF_MEMORY, "um_tune: no memory");
    t->desc = *desc;
    t->mode = wanted_mode(desc->on);
    um_status status = um_mutex_init(&t->lock);
    if (status != UM_OK) {
        um_mem_free(t);
        return status;
    }
    if (t->mode != TUNE_OFF) {
        set_path(t, desc->kind, desc->name);
        snprintf(t->driver, sizeof t->driver, "%s", desc->driver);
        load(t, false);
    }
    *out = t;
    return UM_OK;
}

void um_tune_release(um_tune *tune)
{
    if (!tune) return;
    um_mutex_destroy(&tune->lock);
    um_mem_free(tune->known);
    um_mem_free(tune);
}

int32_t um_tune_find(um_device_kind kind, const char *name, const um_op *op)
{
    um_tune t = {.count = 0};
    char class[CLASS];
    class_of(op, class);
    set_path(&t, kind, name);
    load(&t, true);
    const known *k = find(&t, class);
    int32_t form = k ? k->form : 0;
    um_mem_free(t.known);
    return form;
}
