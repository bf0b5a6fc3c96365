/* driver_flat.h on Vulkan, where nothing is made any more once all is warm, but kernels again whose
 * plans went. */
#include "test/driver_flat.h"
#include "test/vk_wrap.h"

static int64_t live(int32_t kind) { return kind == 0 ? vk_wrap.handles : 0; }
static int64_t made(int32_t kind) { return kind == 0 ? vk_wrap.made - vk_wrap.made_of_kernels : 0; }
static const char *const names[] = {"handles"};

static const driver_row driver = {"vulkan:0", "vulkan,cpu", 1, names, live, made, true};

int main(int argc, char **argv) { return run_flat(argc, argv); }
