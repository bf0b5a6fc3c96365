/* test/shim/modules.c: see modules.h. A module is one translation unit with dozens of texts, each
 * in a namespace of its own, and a table of its kernels. The texts are as um_render_text makes
 * them; a C++ compiler has no word that means "of the work-group" both where a variable is declared
 * and in the type of a pointer, so the one change is that Metal's `threadgroup` at the begin of a
 * declaration becomes SHIM_THREADGROUP. */
#include "test/shim/modules.h"

#include "base/os.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { BUCKETS = 1 << 14, PER_MODULE = 128, MODULES = 1024, JOBS = 16, PATH = 700 };

shim_counts shim_count;

static struct {
    um_mutex mutex;
    shim_text *bucket[BUCKETS];
} all = {.mutex = UM_MUTEX_INIT};

/* ---- texts ----------------------------------------------------------------------------------- */

/* FNV-1a: Fowler, Noll, Vo. */
static uint64_t hash_of(uint64_t hash, const char *text)
{
    for (; *text; text++) hash = (hash ^ (uint8_t)*text) * 0x100000001b3u;
    return hash;
}

/* The text with the function called um_kernel: many differ in its name alone. NULL: no memory. */
static char *without_name(const char *text, const char *name)
{
    um_text out = {0};
    for (const char *at; (at = strstr(text, name)); text = at + strlen(name)) {
        um_text_put(&out, text, (size_t)(at - text));
        um_text_print(&out, "um_kernel");
    }
    um_text_print(&out, "%s", text);
    char *copy = out.status == UM_OK ? strdup(out.data) : NULL;
    um_text_release(&out);
    return copy;
}

static shim_text *text_make(const um_kernel *k, bool is_metal, uint64_t hash, const char *text)
{
    shim_text *t = calloc(1, sizeof *t);
    if (!t || !(t->text = strdup(text))) {
        free(t);
        return NULL;
    }
    t->hash = hash;
    t->is_metal = is_metal;
    t->scalars = (int32_t)k->scalar_count;
    for (int64_t i = 0; i < k->mem_count; i++) t->buffers += k->mem[i].space == UM_SPACE_BUFFER;
    snprintf(t->name, sizeof t->name, "%s", k->name);
    return t;
}

/* The one in the table, perhaps new. CUDA and HIP are one language here, so that what is the same
 * text in both is compiled once. */
static shim_text *find(const um_kernel *k, um_target target, const char *text)
{
    bool is_metal = target == UM_TARGET_METAL;
    uint64_t hash = hash_of(0xcbf29ce484222325u + is_metal, text);
    um_mutex_lock(&all.mutex);
    shim_text **at = &all.bucket[hash % BUCKETS];
    while (*at && ((*at)->hash != hash || strcmp((*at)->text, text) != 0)) at = &(*at)->next;
    if (!*at && (*at = text_make(k, is_metal, hash, text))) shim_count.texts++;
    shim_text *t = *at;
    if (t && !(t->targets >> target & 1)) shim_count.of_target[target]++;
    if (t) t->targets |= 1u << target;
    um_mutex_unlock(&all.mutex);
    return t;
}

um_status shim_text_of(const um_kernel *lowered, um_target target, const shim_text **out)
{
    um_text text = {0};
    char name[64];
    *out = NULL;
    UM_TRY(um_render_text(lowered, target, &text));
    snprintf(name, sizeof name, "um_%s", lowered->name);
    char *plain = without_name(text.data, name);
    um_text_release(&text);
    if (plain) *out = find(lowered, target, plain);
    free(plain);
    return *out ? UM_OK : UM_FAIL(UM_OUT_OF_MEMORY, "shim: no memory for a text");
}

void shim_release(void)
{
    for (int32_t i = 0; i < BUCKETS; i++)
        for (shim_text *t = all.bucket[i], *next; t; t = next) {
            next = t->next;
            free(t->text);
            free(t);
        }
}

/* ---- modules ----------------------------------------------------------------------------------
 */

typedef struct module {
    shim_text *text[PER_MODULE];
    int32_t count;
    um_text source;
    char path[PATH]; /* without .cpp or .so */
    bool there;
} module;

/* What a text begins with, up to the first blank line, is the same in most: said once. */
static size_t head_size(const shim_text *t)
{
    const char *end = strstr(t->text, "\n\n");
    return end ? (size_t)(end + 1 - t->text) : 0;
}

static bool same_head(const shim_text *a, const shim_text *b)
{
    return head_size(a) == head_size(b) && memcmp(a->text, b->text, head_size(a)) == 0;
}

static void put_call(um_text *out, const shim_text *t)
{
    const char *comma = "";
    int32_t words = t->buffers + (t->is_metal ? 0 : t->scalars);
    um_text_print(out, "static void shim_run(const shim_word *w)\n{\n    um_kernel(");
    for (int32_t i = 0; i < words; i++, comma = ", ")
        um_text_print(out, "%sshim_arg{w[%d]}", comma, (int)i);
    if (t->is_metal && t->scalars)
        um_text_print(out, "%sshim_scalars<um_kernel_scalars>(w + %d)", comma, (int)t->buffers);
    if (t->is_metal) um_text_print(out, "%sSHIM_BUILTINS", words + t->scalars > 0 ? ", " : "");
    um_text_print(out, ");\n}\n");
}

static void put_text(um_text *out, const shim_text *t, int32_t head, int32_t number)
{
    static const char word[] = "\n    alignas(16) threadgroup ";
    um_text_print(out, "#define um_kernel um_kernel%d\nnamespace n%d {\nusing namespace h%d;\n",
                  (int)number, (int)number, (int)head);
    um_text_print(out, "#line 1 \"%s\"", t->name);
    const char *from = t->text + head_size(t);
    for (const char *at; (at = strstr(from, word)); from = at + sizeof word - 1) {
        um_text_put(out, from, (size_t)(at - from));
        um_text_print(out, "\n    alignas(16) SHIM_THREADGROUP ");
    }
    um_text_put(out, from, strlen(from));
    put_call(out, t);
    um_text_print(out, "}\n#undef um_kernel\n");
}

static um_status module_write(module *m)
{
    um_text *out = &m->source;
    bool is_metal = m->text[0]->is_metal;
    um_text_print(out, "#include \"%s\"\n", is_metal ? "metal_stdlib" : "cuda.hpp");
    for (int32_t i = 0, head = 0; i < m->count; i++) {
        const shim_text *t = m->text[i];
        if (i == 0 || !same_head(t, m->text[i - 1])) {
            head = i;
            um_text_print(out, "namespace h%d {\n", (int)head);
            um_text_put(out, t->text, head_size(t));
            um_text_print(out, "}\n");
        }
        put_text(out, t, head, i);
    }
    um_text_print(out, "extern \"C\" const shim_kernel shim_kernels[%d] = {", (int)m->count);
    for (int32_t i = 0; i < m->count; i++) um_text_print(out, "n%d::shim_run, ", (int)i);
    um_text_print(out, "};\n");
    return out->status;
}

/* Same texts, headers and command: same name. */
static um_status module_name(module *m, const char *folder, uint64_t seed)
{
    UM_TRY(module_write(m));
    snprintf(m->path, sizeof m->path, "%s/%s-%016llx", folder,
             m->text[0]->is_metal ? "metal" : "cuda",
             (unsigned long long)hash_of(seed, m->source.data));
    char library[PATH + 8];
    snprintf(library, sizeof library, "%s.so", m->path);
    m->there = access(library, R_OK) == 0;
    return UM_OK;
}

static um_status write_file(const char *path, const um_text *text)
{
    FILE *f = fopen(path, "wb");
    bool good = f && fwrite(text->data, 1, (size_t)text->size, f) == (size_t)text->size;
    if (f && fclose(f) != 0) good = false;
    return good ? UM_OK : UM_FAIL(UM_IO_ERROR, "shim: cannot write %s", path);
}

/* ---- compiling --------------------------------------------------------------------------------
 */

#define COMMAND                                                                                    \
    UM_SHIM_CXX " -std=c++17 -O0 -ffp-contract=off -fno-math-errno -fno-trapping-math "            \
                "-fno-strict-aliasing -fsigned-char -fPIC -shared -w -I" UM_SOURCE_DIR             \
                "/test/shim"

/* Of everything that a module depends on beside its texts. */
static um_status seed_of(const char *more, uint64_t *seed)
{
    static const char *const headers[] = {"shim.h", "common.hpp", "cuda.hpp", "metal_stdlib"};
    *seed = hash_of(hash_of(0xcbf29ce484222325u, COMMAND), more);
    for (size_t i = 0; i < UM_COUNT_OF(headers); i++) {
        um_file file;
        char path[PATH];
        snprintf(path, sizeof path, "%s/test/shim/%s", UM_SOURCE_DIR, headers[i]);
        UM_TRY(um_file_open(path, &file));
        for (uint64_t b = 0; b < file.size_bytes; b++)
            *seed = (*seed ^ file.data[b]) * 0x100000001b3u;
        um_file_close(&file);
    }
    return UM_OK;
}

/* Its library appears whole or not at all. */
static FILE *compile_begin(const module *m, const char *more)
{
    char command[4 * PATH];
    snprintf(command, sizeof command,
             "%s %s '%s.cpp' -o '%s.part' 2>&1 && mv '%s.part' '%s.so' && rm '%s.cpp'", COMMAND,
             more, m->path, m->path, m->path, m->path, m->path);
    return popen(command, "r");
}

static bool compile_end(FILE *pipe)
{
    char line[512];
    int32_t lines = 0;
    while (fgets(line, sizeof line, pipe))
        if (lines++ < 40) fprintf(stderr, "%s", line);
    return pclose(pipe) == 0;
}

static um_status compile_all(module *modules, int32_t count, const char *more)
{
    FILE *running[JOBS] = {NULL};
    int32_t jobs = UM_MIN(um_os_cpu_count(), JOBS), next = 0;
    um_status status = UM_OK;
    for (int32_t i = 0; i < count; i++) {
        module *m = &modules[i];
        char path[PATH + 8];
        if (m->there || status != UM_OK) continue;
        snprintf(path, sizeof path, "%s.cpp", m->path);
        status = write_file(path, &m->source);
        if (running[next] && !compile_end(running[next]))
            status = UM_FAIL(UM_IO_ERROR, "shim: a module does not compile");
        running[next] = status == UM_OK ? compile_begin(m, more) : NULL;
        shim_count.compiled += running[next] != NULL;
        next = (next + 1) % jobs;
    }
    for (int32_t i = 0; i < JOBS; i++)
        if (running[i] && !compile_end(running[i]))
            status = UM_FAIL(UM_IO_ERROR, "shim: a module does not compile");
    return status;
}

/* ---- all of them ------------------------------------------------------------------------------
 */

static um_status load(const module *m)
{
    char path[PATH + 8];
    snprintf(path, sizeof path, "%s.so", m->path);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const shim_kernel *kernels = library ? dlsym(library, "shim_kernels") : NULL;
    if (!kernels) return UM_FAIL(UM_IO_ERROR, "shim: %s", dlerror());
    for (int32_t i = 0; i < m->count; i++) m->text[i]->kernel = kernels[i];
    return UM_OK;
}

typedef struct needed {
    const module *modules;
    int32_t count;
    const char *folder;
} needed;

static void remove_unless_needed(void *user, const char *name)
{
    const needed *n = user;
    char path[PATH + 300];
    size_t length = (size_t)snprintf(path, sizeof path, "%s/%s", n->folder, name) - 3;
    for (int32_t i = 0; i < n->count; i++)
        if (strlen(n->modules[i].path) == length && !memcmp(n->modules[i].path, path, length))
            return;
    remove(path);
}

static int by_name(const void *a, const void *b)
{
    const shim_text *x = *(shim_text *const *)a, *y = *(shim_text *const *)b;
    int order = x->is_metal - y->is_metal;
    if (order == 0) order = strcmp(x->name, y->name);
    return order ? order : (x->hash > y->hash) - (x->hash < y->hash);
}

static shim_text **sorted(int32_t *count)
{
    shim_text **texts = calloc((size_t)shim_count.texts + 1, sizeof *texts);
    *count = 0;
    for (int32_t i = 0; texts && i < BUCKETS; i++)
        for (shim_text *t = all.bucket[i]; t; t = t->next)
            if (!t->kernel) texts[(*count)++] = t;
    if (texts) qsort(texts, (size_t)*count, sizeof *texts, by_name);
    return texts;
}

/* Where a module ends is up to its texts, so that a new one does not move all ends behind it. */
static int32_t cut(shim_text **texts, int32_t count, module *modules)
{
    int32_t n = 0;
    for (int32_t i = 0; i < count && n < MODULES; i++) {
        module *m = &modules[n];
        m->text[m->count++] = texts[i];
        bool last = i + 1 == count || texts[i + 1]->is_metal != texts[i]->is_metal;
        n += last || m->count == PER_MODULE || texts[i]->hash % (PER_MODULE / 2) == 0;
    }
    return n;
}

static um_status compile_and_load(module *modules, int32_t count, const char *folder)
{
    const char *more = getenv("UM_SHIM_FLAGS") ? getenv("UM_SHIM_FLAGS") : "";
    uint64_t seed;
    UM_TRY(seed_of(more, &seed));
    for (int32_t i = 0; i < count; i++) UM_TRY(module_name(&modules[i], folder, seed));
    UM_TRY(compile_all(modules, count, more));
    for (int32_t i = 0; i < count; i++) UM_TRY(load(&modules[i]));
    return um_os_list(folder, ".so", remove_unless_needed, &(needed){modules, count, folder});
}

um_status shim_compile(const char *folder)
{
    int32_t count;
    shim_text **texts = sorted(&count);
    module *modules = calloc(MODULES, sizeof *modules);
    um_status status = UM_OK;
    if (!texts || !modules) status = UM_FAIL(UM_OUT_OF_MEMORY, "shim: no memory for modules");
    if (status == UM_OK) {
        shim_count.modules = cut(texts, count, modules);
        status = compile_and_load(modules, shim_count.modules, folder);
    }
    for (int32_t i = 0; modules && i < MODULES; i++) um_text_release(&modules[i].source);
    free(texts);
    free(modules);
    return status;
}
