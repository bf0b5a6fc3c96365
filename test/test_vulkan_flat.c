/* driver_flat.h on Vulkan, where nothing is made any more once all is warm, but kernels again whose
 * plans went. */
#include "test/driver_flat.h"
#include "test/vk_wrap.h"

static int64_t live(int32_t kind) { return vk_wrap.live[kind]; }
static int64_t made(int32_t kind) { return vk_wrap.made[kind]; }
static const char *const names[] = {"handles", "kernels' handles"};

static const driver_row driver = {"vulkan:0", "vulkan,cpu", 2, names, live, made, 1};

int main(int argc, char **argv) { return run_flat(argc, argv); }
