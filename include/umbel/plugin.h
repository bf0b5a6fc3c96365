/* umbel/plugin.h: backends from outside the tree. A plugin is a shared library with one exported
 * function, um_plugin_entry, and links nothing of ours: it gets the host's functions as a table and
 * returns its um_backend. examples/plugin is a complete one, doc/BACKEND.md the guide.
 *
 * How versions meet: every struct that crosses starts with struct_size, struct_id, next, and only
 * grows at its end. What the other side does not have reads as zero: a host function it lacks is
 * NULL, so is a backend's entry. Fields past the end of what the reader knows must be zero, and
 * next is NULL: no extension exists yet. A change of meaning raises UM_PLUGIN_ABI. um_op, um_view,
 * um_device_info and um_caps are part of it. New ops have new ids, and an op may get more optional
 * inputs, outputs and attributes: supports refuses ids, counts and attributes that it does not know
 * (um_attrs_end_at).
 *
 * A plugin is code that runs in this process: load only what you trust. What it returns is checked
 * (sizes, names, counts, pointers to its structs), but a library that crashes takes the process
 * along; `umbel info` and `umbel check --plugin` look at it in a child process first. */
#ifndef UMBEL_PLUGIN_H
#define UMBEL_PLUGIN_H

#include <umbel/backend.h>

#ifdef __cplusplus
extern "C" {
#endif

#define UM_PLUGIN_ABI 1u

#define UM_STRUCT_HOST   2u
#define UM_STRUCT_PLUGIN 3u

/* Whether a struct that the other side made, of which struct_size is set, has the field. */
#define UM_HAS(pointer, field)                                                                     \
    ((size_t)((const char *)&(pointer)->field - (const char *)(pointer)) +                         \
         sizeof((pointer)->field) <=                                                               \
     (size_t)(pointer)->struct_size)

/* Whether the op's attributes behind the first known_bytes are all zero, as those that did not
 * exist yet are. */
static inline bool um_attrs_end_at(const um_op *op, size_t known_bytes)
{
    const unsigned char *bytes = (const unsigned char *)&op->attrs;
    size_t i = known_bytes;
    while (i < sizeof op->attrs && bytes[i] == 0) i++;
    return i == sizeof op->attrs;
}

/* ---- for people who write a plugin ---------------------------------------------------------- */

/* What a plugin may call, from any thread and at any time. Lives as long as the process. */
typedef struct um_host {
    uint32_t struct_size;
    uint32_t struct_id; /* UM_STRUCT_HOST */
    const void *next;
    uint32_t abi;          /* UM_PLUGIN_ABI */
    uint32_t backend_size; /* sizeof(um_backend) here. A plugin with entries beyond it that it can
                              do without says this as its struct_size, and is accepted */
    const char *version;   /* um_version() */

    /* um_backend_fail: records the calling thread's last error and returns code. */
    um_status (*fail)(um_status code, const char *backend, const char *op, int32_t native_code,
                      const char *format, ...) UM_PRINTF(5, 6);
    const um_error *(*last_error)(void);
    /* One line of text to the program's log; level is UM_LOG_... */
    void (*log)(int32_t level, const char *message);
    /* The program's allocator: align_bytes a power of two, at most 4096. NULL when it fails. */
    void *(*alloc)(size_t size_bytes, size_t align_bytes);
    void (*free)(void *ptr); /* NULL is legal */
    const char *(*op_name)(um_op_id id);
    const char *(*dtype_name)(um_dtype dtype);
    um_status (*convert)(um_dtype dst_dtype, void *dst, um_dtype src_dtype, const void *src,
                         int64_t count); /* um_convert */
} um_host;

/* What a plugin is. It and what it points to live as long as the process. */
typedef struct um_plugin {
    uint32_t struct_size;
    uint32_t struct_id; /* UM_STRUCT_PLUGIN */
    const void *next;
    uint32_t abi; /* UM_PLUGIN_ABI of the header it was built with */
    uint32_t reserved;
    const char *version; /* its own, for people, at most 31 characters; may be NULL */
    /* name: letters, digits, - and _; not one that a backend has already. All entries but supports
     * and enqueue (and those after them) are required, and those two come together. */
    const um_backend *backend;
} um_plugin;

/* The one exported symbol: um_status um_plugin_entry(const um_host *host, const um_plugin **out).
 * It may be called again, from any thread, and answers the same. Devices are looked for in
 * enumerate, not here. */
typedef um_status (*um_plugin_entry_fn)(const um_host *host, const um_plugin **out);
#define UM_PLUGIN_ENTRY "um_plugin_entry"

#if defined(_WIN32)
#define UM_PLUGIN_EXPORT __declspec(dllexport)
#elif defined(__GNUC__)
#define UM_PLUGIN_EXPORT __attribute__((visibility("default")))
#else
#define UM_PLUGIN_EXPORT
#endif

/* ---- for programs --------------------------------------------------------------------------- */

/* Loads the library at `path`, which has to hold a '/'; nothing is searched for. From then on its
 * backend is one of um_backend_count's, the last, and um_open knows its name. um_open("./toy.so:0")
 * does both. *name (may be NULL) is the backend's, and lives as long as the process. A plugin stays
 * loaded: its threads may outlive its devices. Loading it again gives the same one. NOT_FOUND: no
 * such file. IO_ERROR: the system cannot load it. ABI_MISMATCH: it is no plugin, or not one for
 * this library. INVALID_ARGUMENT: its name is taken or none. Or what its entry returns. */
UM_API UM_MUST_CHECK um_status um_plugin_load(const char *path, const char **name);

typedef int32_t um_plugin_state;
enum {
    UM_PLUGIN_FOUND = 0, /* its manifest was read; it is loaded when somebody asks for devices */
    UM_PLUGIN_LOADED = 1,
    UM_PLUGIN_REFUSED = 2
};

typedef struct um_plugin_info {
    uint32_t struct_size; /* set by the caller; a field past it is not written */
    um_plugin_state state;
    char name[16];    /* of its backend; "" when its manifest does not say */
    char kind[16];    /* by its manifest: "cpu", "vulkan", ...; "" without one */
    char version[32]; /* once loaded; "" when it has none */
    char path[1024];  /* the library; of a manifest that is not understood, the manifest */
    char why[464];    /* refused: the reason; else "" */
} um_plugin_info;

/* Plugins loaded, and those with a manifest in the folders of UMBEL_PLUGIN_PATH: absolute paths,
 * separated by colons; others are left out, with a line in the log, and so is the variable in a
 * program that runs with more rights than its user. They are read once, at the first call that
 * looks for backends. A manifest is a file NAME.umbel beside the library, in which lines say
 *     name = toy            the backend's
 *     file = libtoy.so      in the same folder
 *     kind = cpu
 *     abi = 1               UM_PLUGIN_ABI
 * Lines that start with # and keys of later versions do not matter. Nothing is loaded before
 * somebody counts the backend's devices or opens one. */
UM_API int32_t um_plugin_count(void);
/* OUT_OF_RANGE: no such index. INVALID_ARGUMENT: NULL, or struct_size not set. */
UM_API UM_MUST_CHECK um_status um_plugin_describe(int32_t index, um_plugin_info *out);

#ifdef __cplusplus
}
#endif
#endif
