/* Plugins for test_plugin.c, built with the frozen header alone and linked with nothing of ours.
 * The library's file name says which: v-NAME.so is variant NAME, whose backend is called NAME. Each
 * does one thing wrong, or none. */
#include "test/abi/plugin_v1.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct v1_device {
    int32_t ordinal;
};
struct v1_stream {
    uint64_t ticket;
};

static const v1_host *host;
static char variant[64];

static bool is(const char *name) { return strcmp(variant, name) == 0; }

/* ---- which one --------------------------------------------------------------------------------
 */

/* The loader runs this under its own lock, which the thread sanitizer does not see: hence no
 * memcpy, which it watches. */
__attribute__((constructor, no_sanitize("thread"))) static void find_variant(void)
{
    Dl_info info;
    if (!dladdr((void *)variant, &info) || !info.dli_fname) return;
    const char *from = strstr(info.dli_fname, "/v-");
    const char *to = from ? strstr(from, ".so") : NULL;
    if (!to || (size_t)(to - from) - 3 >= sizeof variant) return;
    for (volatile char *at = variant; from + 3 < to; from++) *at++ = from[3];
    if (is("crash")) raise(SIGSEGV);
}

/* ---- devices ----------------------------------------------------------------------------------
 */

static int32_t enumerate(int32_t *count, char *why, size_t why_size)
{
    *count = is("count") ? 1 << 30 : is("negative") ? -3 : 1;
    if (is("endless")) memset(why, 'w', why_size);
    if (is("endless")) *count = 0;
    return V1_OK;
}

static int32_t describe(int32_t ordinal, v1_device_info *out)
{
    (void)ordinal;
    if (is("describe")) memset(out, 'd', sizeof *out + 200);
    if (is("texts")) memset(out, 't', sizeof *out);
    out->kind = V1_DEVICE_CPU;
    if (!is("texts")) snprintf(out->name, sizeof out->name, "variant %s", variant);
    return V1_OK;
}

static int32_t open_device(int32_t ordinal, v1_device **out)
{
    static v1_device device;
    device.ordinal = ordinal;
    if (!is("nothing")) *out = &device;
    return V1_OK;
}

static void close_device(v1_device *device) { (void)device; }

static int32_t caps(v1_device *device, v1_caps *out)
{
    (void)device;
    if (is("caps")) memset(out, 'c', sizeof *out + 500);
    if (is("texts")) memset(out, 't', sizeof *out);
    out->kind = V1_DEVICE_CPU;
    out->storage = out->arithmetic = 1u << V1_F32;
    return V1_OK;
}

/* ---- memory and streams -----------------------------------------------------------------------
 */

static int32_t alloc(v1_device *device, uint64_t size_bytes, uint64_t *out)
{
    (void)device;
    if (is("bytes")) return *out = 4, V1_OK;
    if (is("silent") && size_bytes == 1) return V1_OUT_OF_MEMORY;
    void *ptr = size_bytes <= 1 << 30 ? host->alloc((size_t)size_bytes, 64) : NULL;
    *out = (uint64_t)(uintptr_t)ptr;
    return ptr ? V1_OK : host->fail(V1_OUT_OF_MEMORY, variant, NULL, 0, "%s: no memory", variant);
}

static void free_memory(v1_device *device, uint64_t ptr)
{
    (void)device;
    if (!is("bytes")) host->free((void *)(uintptr_t)ptr);
}

static int32_t stream_create(v1_device *device, v1_stream **out)
{
    (void)device;
    *out = is("streams") ? NULL : host->alloc(sizeof **out, sizeof(void *));
    if (*out) (*out)->ticket = 0;
    return V1_OK;
}

static void stream_destroy(v1_stream *stream) { host->free(stream); }

static void *memory(uint64_t ptr) { return (void *)(uintptr_t)ptr; }

/* short-...: does all but the last byte. */
static uint64_t cut(const char *entry, uint64_t size_bytes)
{
    char name[32];
    snprintf(name, sizeof name, "short-%s", entry);
    return size_bytes - is(name);
}

static int32_t write_bytes(v1_stream *stream, uint64_t dst, const void *src, uint64_t size_bytes)
{
    (void)stream;
    size_bytes = cut("write", size_bytes);
    memcpy(memory(dst), src, (size_t)size_bytes);
    return V1_OK;
}

/* lazy: copies when somebody looks, whatever came between. */
static void *late_dst;
static const void *late_src;
static size_t late_bytes;

static void catch_up(void)
{
    if (late_bytes) memcpy(late_dst, late_src, late_bytes);
    late_bytes = 0;
}

/* racy: all streams read through one buffer, without a lock. */
static void read_racy(uint8_t *dst, const uint8_t *src, size_t size_bytes)
{
    static volatile uint8_t shared[4096];
    for (size_t i = 0; i < size_bytes; i++) {
        shared[i] = src[i];
        if (i % 64 == 0) usleep(20);
    }
    for (size_t i = 0; i < size_bytes; i++) dst[i] = shared[i];
}

static int32_t read_bytes(v1_stream *stream, void *dst, uint64_t src, uint64_t size_bytes)
{
    (void)stream;
    catch_up();
    if (is("racy") && size_bytes <= 4096) return read_racy(dst, memory(src), size_bytes), V1_OK;
    memcpy(dst, memory(src), (size_t)cut("read", size_bytes));
    return V1_OK;
}

static int32_t copy_bytes(v1_stream *stream, uint64_t dst, uint64_t src, uint64_t size_bytes)
{
    (void)stream;
    if (is("lazy")) {
        catch_up();
        late_dst = memory(dst), late_src = memory(src), late_bytes = (size_t)size_bytes;
        return V1_OK;
    }
    memcpy(memory(dst), memory(src), (size_t)cut("copy", size_bytes));
    return V1_OK;
}

static int32_t fill(v1_stream *stream, uint64_t dst, uint64_t size_bytes, uint64_t pattern,
                    uint32_t pattern_bytes)
{
    (void)stream;
    uint8_t *bytes = memory(dst);
    size_bytes = cut("fill", size_bytes);
    for (uint64_t i = 0; i < size_bytes; i++)
        bytes[i] = (uint8_t)(pattern >> 8 * (i % pattern_bytes));
    return V1_OK;
}

static int32_t record(v1_stream *stream, uint64_t *ticket)
{
    *ticket = ++stream->ticket;
    return V1_OK;
}

static int32_t wait_for(v1_stream *stream, v1_stream *other, uint64_t ticket)
{
    (void)stream, (void)other, (void)ticket;
    return V1_OK;
}

static int32_t done(v1_stream *stream, uint64_t ticket)
{
    (void)stream, (void)ticket;
    return V1_OK;
}

static int32_t clear_error(v1_stream *stream)
{
    (void)stream;
    return V1_OK;
}

/* ---- ops: relu of f32 [n], packed
 * ---------------------------------------------------------------- */

static bool supports(v1_device *device, const v1_op *op, char *why, size_t why_size)
{
    (void)device;
    bool yes = op->id == V1_OP_RELU && op->in[0].dtype == V1_F32 && op->in[0].rank == 1 &&
               op->in[0].stride[0] == 1 && op->out[0].stride[0] == 1;
    snprintf(why, why_size, "%s", yes ? "" : "relu of packed f32 only");
    return yes;
}

static int32_t enqueue(v1_stream *stream, const v1_op *op)
{
    (void)stream;
    const float *x = memory(op->in[0].ptr);
    float *y = memory(op->out[0].ptr);
    for (int64_t i = 0; i < op->in[0].shape[0]; i++) y[i] = x[i] <= 0 ? 0 : x[i];
    return V1_OK;
}

/* ---- the entry
 * ----------------------------------------------------------------------------------- */

static union {
    v1_backend table;
    uint8_t bytes[1024]; /* a later one, which knows more entries */
} backend = {.table = {.struct_size = sizeof(v1_backend),
                       .struct_id = V1_STRUCT_BACKEND,
                       .name = variant,
                       .enumerate = enumerate,
                       .describe = describe,
                       .open = open_device,
                       .close = close_device,
                       .caps = caps,
                       .alloc = alloc,
                       .free = free_memory,
                       .stream_create = stream_create,
                       .stream_destroy = stream_destroy,
                       .write = write_bytes,
                       .read = read_bytes,
                       .copy = copy_bytes,
                       .fill = fill,
                       .record = record,
                       .wait = wait_for,
                       .query = done,
                       .synchronize = done,
                       .clear_error = clear_error,
                       .supports = supports,
                       .enqueue = enqueue}};

static v1_plugin plugin = {.struct_size = sizeof plugin,
                           .struct_id = V1_STRUCT_PLUGIN,
                           .abi = V1_ABI,
                           .version = "1.5",
                           .backend = &backend.table};

static void set_sizes(void)
{
    v1_backend *b = &backend.table;
    if (is("newer") || is("newer-zero")) b->struct_size = sizeof backend;
    if (is("newer")) backend.bytes[sizeof backend - 1] = 1;
    if (is("adapts")) { /* newer as well, but can do without */
        backend.bytes[host->backend_size] = 1;
        b->struct_size = host->backend_size;
    }
    if (is("huge")) b->struct_size = 0xffffffffu;
    if (is("tiny")) b->struct_size = 15;
    if (is("short")) b->struct_size = offsetof(v1_backend, clear_error);
    if (is("required")) b->struct_size = offsetof(v1_backend, supports);
    if (is("plugin-size")) plugin.struct_size = 0;
}

/* The table at the very end of its memory, saying that it goes on. */
static void set_beyond(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *memory =
        mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory + page, page, PROT_NONE) != 0) return;
    v1_backend *b = (v1_backend *)(void *)(memory + page - sizeof *b);
    *b = backend.table;
    b->struct_size = 1024;
    plugin.backend = b;
}

static void set_pointers(void)
{
    static char endless[4096];
    v1_backend *b = &backend.table;
    if (is("other-id")) b->struct_id = 7;
    if (is("next")) b->next = b;
    if (is("abi")) plugin.abi = 99;
    if (is("null-backend")) plugin.backend = NULL;
    if (is("wild-backend")) plugin.backend = (const v1_backend *)(uintptr_t)0x10;
    if (is("null-name")) b->name = NULL;
    if (is("wild-name")) b->name = (const char *)(uintptr_t)0x18;
    if (is("long-name")) b->name = memset(endless, 'n', sizeof endless);
    if (is("bad-name")) b->name = "Two Words";
    if (is("taken-name")) b->name = "cpu";
    if (is("alias-name")) b->name = "nvidia";
    if (is("missing")) b->read = NULL;
    if (is("no-supports")) b->supports = NULL;
    if (is("no-enqueue")) b->enqueue = NULL;
    if (is("no-ops")) b->supports = NULL, b->enqueue = NULL;
    if (is("other-manifest")) b->name = "somebody-else";
}

__attribute__((visibility("default"))) int32_t um_plugin_entry(const v1_host *given,
                                                               const v1_plugin **out);
__attribute__((visibility("default"))) int32_t um_plugin_entry(const v1_host *given,
                                                               const v1_plugin **out)
{
    host = given;
    if (host->struct_id != V1_STRUCT_HOST || host->abi != V1_ABI || host->next ||
        host->struct_size < sizeof *host) {
        return V1_UNSUPPORTED;
    }
    if (is("hang")) raise(SIGALRM); /* what an alarm does to one that never comes back */
    if (is("fails")) return host->fail(V1_DEVICE_ERROR, "x", NULL, 42, "no driver of %s", variant);
    if (is("mute")) return V1_OUT_OF_RANGE;
    if (is("empty")) return V1_OK;
    if (is("wild")) return *out = (const v1_plugin *)(uintptr_t)0x40, V1_OK;
    if (is("talks")) host->log(V1_LOG_INFO, "hello from a plugin");
    set_sizes();
    set_pointers();
    if (is("beyond")) set_beyond();
    *out = &plugin;
    return V1_OK;
}
