/* driver_graph.h on Vulkan, where what is recorded is few command buffers, used again. */
#include "test/driver_graph.h"
#include "test/vk_wrap.h"

static int64_t live(int32_t kind) { return vk_wrap.live[kind]; }
static int64_t made(int32_t kind) { return vk_wrap.made[kind]; }
static const char *const names[] = {"handles", "kernels' handles"};

static const driver_row driver = {"vulkan:0", "vulkan,cpu", 2, names, live, made, 0, 0};

int main(void) { return run_graphs(); }
