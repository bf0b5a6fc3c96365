/* Choosing a device: which ones satisfy a request, in which order, and why the others do not.
 * Called from outside, by spec.c for "auto" and by fallback.c for a device's default chain. */
#include "device/device.h"

#include "op/table.h"

#include <stdio.h>
#include <stdlib.h>

#define WHY_BYTES 160

typedef unsigned long long ull; /* for messages */

/* One device, or a backend that has none (ordinal -1). */
typedef struct candidate {
    um_device_ref ref;
    um_device_info info;
    int32_t rank;        /* of its kind; lower is better */
    bool matrix;         /* wanted for its tensor cores: before all others */
    char why[WHY_BYTES]; /* refused; "" is accepted */
} candidate;

/* A request, looked at. */
typedef struct wish {
    um_request request;
    bool pinned;
    um_spec spec;      /* pinned: the device; and the layers */
    bool wants_matrix; /* um_route */
    um_device_kind order[UM_DEVICE_KIND_COUNT];
    int32_t order_count;
} wish;

/* ---- priority ------------------------------------------------------------------------------- */

/* The kinds that the program names, best first. */
static struct {
    um_mutex mutex;
    int32_t count;
    um_device_kind kind[UM_DEVICE_KIND_COUNT];
} priority = {.mutex = UM_MUTEX_INIT};

um_status um_set_device_priority(const um_device_kind *kinds, int32_t count)
{
    if (count < 0 || count > UM_DEVICE_KIND_COUNT || (count > 0 && !kinds)) {
        return UM_FAIL(UM_INVALID_ARGUMENT, "um_set_device_priority: %d kinds%s", count,
                       count > 0 && !kinds ? " at NULL" : "");
    }
    uint32_t seen = 0;
    for (int32_t i = 0; i < count; i++) {
        bool known = kinds[i] > UM_DEVICE_NONE && kinds[i] <= UM_DEVICE_CPU;
        if (!known || seen >> kinds[i] & 1u) {
            return UM_FAIL(UM_INVALID_ARGUMENT, "um_set_device_priority: kind %d, %s, %s", kinds[i],
                           um_device_kind_name(kinds[i]),
                           known ? "is named twice" : "cannot be preferred");
        }
        seen |= 1u << kinds[i];
    }
    um_mutex_lock(&priority.mutex);
    priority.count = count;
    if (count > 0) memcpy(priority.kind, kinds, (size_t)count * sizeof *kinds);
    um_mutex_unlock(&priority.mutex);
    return UM_OK;
}

static bool is_named(const wish *w, um_device_kind kind)
{
    for (int32_t i = 0; i < w->order_count; i++) {
        if (w->order[i] == kind) return true;
    }
    return false;
}

/* Those named by the program, in its order, then the others by number, which is theirs. */
static int32_t rank_of(const wish *w, um_device_kind kind)
{
    for (int32_t i = 0; i < w->order_count; i++) {
        if (w->order[i] == kind) return i;
    }
    return UM_DEVICE_KIND_COUNT + kind;
}

/* ---- the request ---------------------------------------------------------------------------- */

const char *um_feature_name(uint32_t feature)
{
    static const char *const names[] = {"fp16",        "bf16",           "fp8",
                                        "f64",         "tensor_cores",   "unified_memory",
                                        "peer_access", "cluster_launch", "async_copy",
                                        "tensor_map"};
    for (uint32_t i = 0; i < UM_COUNT_OF(names); i++) {
        if (feature == 1u << i) return names[i];
    }
    return NULL;
}

/* What is past the end of the request as we know it has to be zero. */
static um_status copy_request(const um_request *request, um_request *out)
{
    *out = (um_request){.struct_size = sizeof *out};
    if (!request) return UM_OK;
    size_t size = request->struct_size;
    if (size < offsetof(um_request, features)) {
        return UM_FAIL(UM_INVALID_ARGUMENT, "um_request: struct_size is not set");
    }
    for (size_t i = sizeof *out; i < size; i++) {
        if (((const uint8_t *)request)[i] == 0) continue;
        return UM_FAIL(UM_INVALID_ARGUMENT,
                       "um_request: of its %zu bytes some beyond the %zu known here are set", size,
                       sizeof *out);
    }
    memcpy(out, request, UM_MIN(size, sizeof *out));
    if (out->reserved != 0) {
        return UM_FAIL(UM_INVALID_ARGUMENT, "um_request: reserved is %d, wanted 0",
                       (int)out->reserved);
    }
    for (uint32_t bit = 0; bit < 32; bit++) {
        if (!(out->features >> bit & 1u) || um_feature_name(1u << bit)) continue;
        return UM_FAIL(UM_INVALID_ARGUMENT, "um_request: there is no feature bit %u", bit);
    }
    return UM_OK;
}

/* Asks for nothing. */
static void no_wish(wish *out)
{
    *out = (wish){.request.struct_size = sizeof out->request};
    um_mutex_lock(&priority.mutex);
    out->order_count = priority.count;
    memcpy(out->order, priority.kind, sizeof out->order);
    um_mutex_unlock(&priority.mutex);
}

static um_status look_at_request(const um_request *request, wish *out)
{
    no_wish(out);
    UM_TRY(copy_request(request, &out->request));
    const char *pin = out->request.pin, *layers = out->request.layers;
    const char *environment = um_env_get(UM_ENV_DEVICE);
    if (pin && strchr(pin, '+')) {
        return UM_FAIL(UM_INVALID_ARGUMENT, "um_request: layers in the pin \"%s\"", pin);
    }
    if (!pin) pin = environment;
    if (pin && *pin) UM_TRY(um_spec_parse(pin, &out->spec));
    out->pinned = pin && *pin && !out->spec.is_auto;
    if (layers) UM_TRY(um_spec_parse_layers(layers, &out->spec));
    return UM_OK;
}

static void list_missing(uint32_t missing, char *why, size_t why_size)
{
    size_t used = (size_t)snprintf(why, why_size, "lacks");
    for (uint32_t bit = 0; bit < 32 && used < why_size; bit++) {
        if (!(missing >> bit & 1u)) continue;
        used += (size_t)snprintf(why + used, why_size - used, "%s %s", used > 5 ? "," : "",
                                 um_feature_name(1u << bit));
    }
}

/* Writes why not, or nothing. */
static void judge(const wish *w, candidate *c)
{
    const um_device_info *info = &c->info;
    const um_request *r = &w->request;
    bool is_cpu = strcmp(info->backend, "cpu") == 0; /* not a plugin that computes there */
    const char *why = NULL;
    if (w->pinned) {
        bool same = c->ref.backend_index == w->spec.device.backend_index &&
                    c->ref.ordinal == w->spec.device.ordinal;
        why = same ? NULL : "is not the one asked for";
    } else if (info->kind == UM_DEVICE_NULL) {
        why = "computes nothing";
    } else if (!info->is_gpu && !is_cpu && !is_named(w, info->kind)) {
        why = "computes on the CPU, so it is for those who name it";
    }
    if (!why && r->gpu_required && !info->is_gpu) why = "is no GPU";
    if (why) {
        snprintf(c->why, sizeof c->why, "%s", why);
    } else if (r->features & ~info->features) {
        list_missing(r->features & ~info->features, c->why, sizeof c->why);
    } else if (r->memory_min_bytes > info->memory_total_bytes) {
        snprintf(c->why, sizeof c->why, "has %llu bytes of memory, wanted %llu",
                 (ull)info->memory_total_bytes, (ull)r->memory_min_bytes);
    }
}

/* ---- the candidates ------------------------------------------------------------------------- */

static int64_t order_of(int64_t a, int64_t b) { return a < b ? -1 : a > b; }

/* Accepted ones first, best first. */
static int compare(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    const int64_t orders[] = {
        order_of(x->why[0] != 0, y->why[0] != 0),
        order_of(!x->matrix, !y->matrix),
        order_of(x->rank, y->rank),
        x->info.memory_total_bytes == y->info.memory_total_bytes  ? 0
        : x->info.memory_total_bytes > y->info.memory_total_bytes ? -1
                                                                  : 1,
        order_of(x->ref.backend_index, y->ref.backend_index),
        order_of(x->ref.ordinal, y->ref.ordinal),
    };
    for (size_t i = 0; i < UM_COUNT_OF(orders); i++) {
        if (orders[i] != 0) return (int)orders[i];
    }
    return 0;
}

static void fill(const wish *w, candidate *c)
{
    um_error saved = *um_last_error();
    if (um_device_describe(c->ref.backend_index, c->ref.ordinal, &c->info) != UM_OK) {
        snprintf(c->why, sizeof c->why, "%.*s", WHY_BYTES - 1, um_last_error()->message);
        um_fail_again(&saved);
        return;
    }
    c->rank = rank_of(w, c->info.kind);
    c->matrix = w->wants_matrix && (c->info.features & UM_FEATURE_TENSOR_CORES);
    judge(w, c);
}

static um_status add_backend(const wish *w, int32_t index, candidate **items, int64_t *capacity,
                             int64_t *count)
{
    const char *why;
    int32_t devices;
    UM_TRY(um_backend_describe(index, NULL, &devices, &why));
    for (int32_t i = devices > 0 ? 0 : -1; i < devices; i++) {
        void *grown = *items;
        um_status status = um_vec_reserve(&grown, capacity, *count, sizeof **items, "um_request");
        *items = grown;
        UM_TRY(status);
        candidate *c = &(*items)[(*count)++];
        *c = (candidate){.ref = {index, i}, .info = {.struct_size = sizeof c->info}};
        if (i < 0) {
            c->rank = INT32_MAX;
            snprintf(c->why, sizeof c->why, "no device: %.*s", WHY_BYTES - 16, why);
        } else {
            fill(w, c);
        }
    }
    return UM_OK;
}

/* Every device there is, judged and in order. *items is the caller's to free, also after a failure.
 */
static um_status collect(const wish *w, candidate **items, int64_t *count)
{
    int64_t capacity = 0;
    *items = NULL;
    *count = 0;
    for (int32_t i = 0; i < um_backend_count(); i++) {
        UM_TRY(add_backend(w, i, items, &capacity, count));
    }
    if (*count > 0) qsort(*items, (size_t)*count, sizeof **items, compare);
    return UM_OK;
}

/* "cuda:0 (NVIDIA H200): lacks f64; vulkan: no device: no loader" */
static void explain(const candidate *items, int64_t count, const char *between, char *text,
                    size_t text_size)
{
    size_t used = 0;
    for (int64_t i = 0; i < count && used < text_size; i++) {
        const candidate *c = &items[i];
        const char *name = um_backend_name_at(c->ref.backend_index);
        const char *gap = i > 0 ? between : "";
        char ordinal[16], *at = text + used;
        snprintf(ordinal, sizeof ordinal, ":%d", c->ref.ordinal);
        used +=
            (size_t)snprintf(at, text_size - used, "%s%s%s%s%s%s: %s", gap, name,
                             c->ref.ordinal < 0 ? "" : ordinal, c->info.name[0] ? " (" : "",
                             c->info.name, c->info.name[0] ? ")" : "", c->why[0] ? c->why : "fits");
    }
}

static um_status fail_none(const candidate *items, int64_t count)
{
    char text[sizeof((um_error *)0)->message];
    explain(items, count, "; ", text, sizeof text);
    return UM_FAIL(UM_NOT_FOUND, "um_request: no device satisfies it: %s", text);
}

/* ---- the calls ------------------------------------------------------------------------------ */

/* The accepted ones. NOT_FOUND with must_find, when there is none. */
static um_status choose(const wish *w, bool must_find, um_device_ref *list, int32_t capacity,
                        int32_t *count)
{
    candidate *items;
    int64_t found;
    *count = 0;
    um_status status = collect(w, &items, &found);
    for (int64_t i = 0; status == UM_OK && i < found && !items[i].why[0]; i++) {
        if (*count < capacity) list[*count] = items[i].ref;
        ++*count;
    }
    if (status == UM_OK && *count == 0 && must_find) status = fail_none(items, found);
    um_mem_free(items);
    return status;
}

um_status um_select_any(bool must_find, um_device_ref *list, int32_t capacity, int32_t *count)
{
    wish w;
    no_wish(&w);
    return choose(&w, must_find, list, capacity, count);
}

um_status um_fallback_chain(const um_request *request, um_device_ref *list, int32_t capacity,
                            int32_t *count)
{
    wish w;
    if (!count || (capacity > 0 && !list)) {
        return UM_FAIL(UM_INVALID_ARGUMENT, "um_fallback_chain: %s is NULL",
                       count ? "list" : "count");
    }
    *count = 0;
    if (capacity < 0) {
        return UM_FAIL(UM_INVALID_ARGUMENT, "um_fallback_chain: room for %d devices",
                       (int)capacity);
    }
    UM_TRY(look_at_request(request, &w));
    return choose(&w, false, list, capacity, count);
}

um_status um_request_explain(const um_request *request, char *text, size_t text_size)
{
    candidate *items;
    int64_t found;
    wish w;
    if (!text || text_size == 0) {
        return UM_FAIL(UM_INVALID_ARGUMENT, "um_request_explain: no room for text");
    }
    text[0] = 0;
    UM_TRY(look_at_request(request, &w));
    um_status status = collect(&w, &items, &found);
    if (status == UM_OK) explain(items, found, "\n", text, text_size);
    um_mem_free(items);
    return status;
}

um_status um_route(const um_request *request, um_op_id op, um_device_ref *out)
{
    int32_t count;
    wish w;
    const um_op_row *row = um_op_get_row(op);
    if (!out) return UM_FAIL(UM_INVALID_ARGUMENT, "um_route: out is NULL");
    *out = (um_device_ref){0};
    if (!row) return UM_FAIL(UM_INVALID_ARGUMENT, "um_route: there is no op %d", op);
    UM_TRY(look_at_request(request, &w));
    w.wants_matrix = um_op_is_product(row);
    return choose(&w, true, out, 1, &count);
}

/* Opens the first that opens; an earlier one's error is told only when none does. */
static um_status open_first(um_spec *spec, const um_device_ref *list, int32_t count,
                            int32_t *opened, um_device **out)
{
    um_error first = {.code = UM_OK};
    for (*opened = 0; *opened < count; ++*opened) {
        spec->device = list[*opened];
        if (um_open_spec(spec, out) == UM_OK) return UM_OK;
        if (first.code == UM_OK) first = *um_last_error();
        um_log_write(UM_LOG_WARNING, "%s", um_last_error()->message);
    }
    return um_fail_again(&first);
}

um_status um_open_request(const um_request *request, um_device **out)
{
    um_device_ref list[UM_CHAIN_MAX + 1];
    int32_t count, opened;
    wish w;
    if (!out) return UM_FAIL(UM_INVALID_ARGUMENT, "um_open_request: out is NULL");
    *out = NULL;
    UM_TRY(look_at_request(request, &w));
    UM_TRY(choose(&w, true, list, (int32_t)UM_COUNT_OF(list), &count));
    count = UM_MIN(count, (int32_t)UM_COUNT_OF(list));
    UM_TRY(open_first(&w.spec, list, count, &opened, out));
    um_status status = um_device_set_fallback(*out, list + opened + 1, count - opened - 1);
    if (status == UM_OK) return UM_OK;
    um_device_release(*out);
    *out = NULL;
    return status;
}
