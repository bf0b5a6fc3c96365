/* A program outside the tree: uses the library as installed, from C and, compiled as C++, from C++.
 */
#include <stdio.h>
#include <umbel/umbel.h>

int main(void)
{
    const float values[3] = {1.0f, 2.0f, 3.0f};
    const int64_t shape[1] = {3};
    float sum = 0.0f;
    um_device *device = NULL;
    um_status status = um_open("cpu", &device);
    if (status == UM_OK) {
        um_tensor *x = um_from_host(device, UM_F32, 1, shape, values);
        um_tensor *y = um_sum(um_square(x), UM_ALL_AXES, false);
        status = um_read_f32(y, &sum, 1);
        um_release(y);
    }
    um_device_release(device);
    if (status != UM_OK) {
        fprintf(stderr, "%s\n", um_last_error()->message);
        return 1;
    }
    printf("umbel %s: %g\n", um_version(), (double)sum);
    return sum != 14.0f;
}
