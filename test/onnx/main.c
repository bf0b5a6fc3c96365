/* test/onnx/main.c: the operator cases of the ONNX project, on the CPU device.
 *
 *   test_onnx CASES LISTS             runs all; LISTS/pass.txt must pass, LISTS/todo.txt must fail,
 * each for the reason given there, and together they are all there is test_onnx CASES LISTS
 * --update    writes the lists anew; what passed once must still pass test_onnx CASES LISTS NAME...
 * runs these and says what comes out
 */
#include "../test.h"
#include "cases.h"

#include <math.h>
#include <stdlib.h>

static um_device *device;
static um_stream *stream;
static const char *cases_dir;

/* ---- the reader believes no byte ---------------------------------------------------------------
 */

static void read_changed(const uint8_t *data, size_t count, int *refused)
{
    onnx_arena arena = {0};
    onnx_model model;
    onnx_tensor tensor;
    onnx_bytes bytes = {data, count}, elements;
    um_status status = onnx_read_model(&arena, bytes, &model);
    CHECK(status == UM_OK || status == UM_CORRUPT_DATA || status == UM_UNSUPPORTED);
    *refused += status != UM_OK;
    status = onnx_read_tensor(&arena, bytes, &tensor);
    if (status == UM_OK) status = onnx_tensor_data(&arena, &tensor, &elements);
    CHECK(status == UM_OK || status == UM_CORRUPT_DATA || status == UM_UNSUPPORTED);
    *refused += status != UM_OK;
    onnx_arena_free(&arena);
}

static void test_corrupt_files(void)
{
    static const char *const files[] = {"test_slice/model.onnx", "test_if/model.onnx",
                                        "test_constantofshape_float_ones/model.onnx",
                                        "test_slice/test_data_set_0/input_1.pb",
                                        "test_cast_INT4_to_INT8/test_data_set_0/input_0.pb"};
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        char path[512];
        onnx_arena arena = {0};
        snprintf(path, sizeof path, "%s/%s", cases_dir, files[f]);
        onnx_bytes whole = onnx_read_file(&arena, path);
        CHECK_MSG(whole.size > 0, "%s", path);
        int refused = 0;
        for (size_t cut = 0; cut < whole.size; cut++) {
            /* A copy of just that size, so that the sanitizer sees a read beyond it. */
            uint8_t *part = malloc(cut ? cut : 1);
            if (cut) memcpy(part, whole.data, cut);
            read_changed(part, cut, &refused);
            free(part);
        }
        CHECK(refused > (int)whole.size);
        uint8_t *changed = malloc(whole.size + 1);
        memcpy(changed, whole.data, whole.size);
        for (size_t i = 0; i < whole.size; i++) {
            const uint8_t was = whole.data[i];
            const uint8_t others[] = {was ^ 1, was ^ 0x40, was ^ 0x80, 0x00, 0x7f, 0xff};
            for (size_t k = 0; k < sizeof others; k++) {
                changed[i] = others[k];
                read_changed(changed, whole.size, &refused);
            }
            changed[i] = whole.data[i];
        }
        free(changed);
        onnx_arena_free(&arena);
    }
}

/* ---- the comparison refuses what is wrong -----------------------------------------------------
 */

/* Two floats against two others. */
static bool takes(bool exact, const float *got, const float *want, int32_t rank, int32_t type)
{
    run r;
    verdict v = {0};
    onnx_arena arena = {0};
    onnx_tensor tensor = {.name = "",
                          .type = type,
                          .rank = rank,
                          .shape = {2, 1},
                          .count = 2,
                          .raw = {(const uint8_t *)want, 8},
                          .has_raw = true};
    run_open(&r, device, stream, &arena);
    r.exact = exact;
    value v_got = {put(&r, UM_F32, 1, (const int64_t[]){2}, got), ONNX_FLOAT};
    bool good = compare(&r, &v_got, &tensor, &v);
    CHECK(good == !r.failed);
    run_close(&r);
    onnx_arena_free(&arena);
    return good;
}

static void test_comparison(void)
{
    const float one[] = {1, 0}, near[] = {1.0009f, 0}, far[] = {1.0011f, 0}, minus[] = {1, -0.0f};
    const float small[] = {1, 0.9e-7f}, large[] = {1, 1.1e-7f};
    const float nan[] = {1, (float)NAN}, other_nan[] = {1, -(float)NAN},
                inf[] = {1, (float)INFINITY};
    CHECK(takes(true, one, one, 1, ONNX_FLOAT) && takes(false, one, one, 1, ONNX_FLOAT));
    CHECK(takes(false, near, one, 1, ONNX_FLOAT) && !takes(true, near, one, 1, ONNX_FLOAT));
    CHECK(!takes(false, far, one, 1, ONNX_FLOAT));
    CHECK(takes(false, small, one, 1, ONNX_FLOAT) && !takes(false, large, one, 1, ONNX_FLOAT));
    CHECK(takes(false, minus, one, 1, ONNX_FLOAT) && !takes(true, minus, one, 1, ONNX_FLOAT));
    CHECK(takes(true, nan, other_nan, 1, ONNX_FLOAT));
    CHECK(!takes(false, nan, one, 1, ONNX_FLOAT) && !takes(false, one, nan, 1, ONNX_FLOAT));
    CHECK(takes(false, inf, inf, 1, ONNX_FLOAT) && !takes(false, one, inf, 1, ONNX_FLOAT));
    CHECK(!takes(false, inf, nan, 1, ONNX_FLOAT) && !takes(false, inf, one, 1, ONNX_FLOAT));
    CHECK(!takes(false, one, one, 2, ONNX_FLOAT)); /* [2] is not [2, 1] */
    CHECK(!takes(false, one, one, 1, ONNX_INT64));
}

/* ---- the lists ----------------------------------------------------------------------------------
 */

static const char pass_head[] =
    "# The ONNX operator cases that pass. Made by test_onnx --update; it only grows.\n";
static const char todo_head[] =
    "# The ONNX operator cases that do not pass, and why. Made by test_onnx --update.\n";

static void check_case(const char *name, const verdict *v, const list *pass, const list *todo)
{
    const entry *wanted = list_find(todo, name);
    if (list_find(pass, name)) {
        CHECK_MSG(!v->why[0], "%s must pass: %s %s", name, v->why, v->detail);
        CHECK_MSG(!wanted, "%s is in both lists", name);
    } else if (!v->why[0]) {
        CHECK_MSG(false, "%s now passes: add it (test_onnx --update)", name);
    } else {
        CHECK_MSG(wanted, "%s is in no list: %s %s", name, v->why, v->detail);
        if (wanted)
            CHECK_MSG(strcmp(wanted->why, v->why) == 0, "%s: %s %s; todo.txt says %s", name, v->why,
                      v->detail, wanted->why);
    }
}

static void check_all(const list *all, const char *lists_dir, bool update)
{
    char pass_path[512], todo_path[512];
    list pass = {0}, todo = {0}, new_pass = {0}, new_todo = {0};
    int lost = 0;
    snprintf(pass_path, sizeof pass_path, "%s/pass.txt", lists_dir);
    snprintf(todo_path, sizeof todo_path, "%s/todo.txt", lists_dir);
    CHECK_MSG(list_read(&pass, pass_path) || update, "%s", pass_path);
    CHECK_MSG(list_read(&todo, todo_path) || update, "%s", todo_path);
    for (size_t i = 0; i < all->count; i++) {
        const char *name = all->entries[i].name;
        verdict v = run_case(device, stream, cases_dir, name);
        bool good = list_add(v.why[0] ? &new_todo : &new_pass, name, v.why);
        CHECK(good);
        if (!update) {
            check_case(name, &v, &pass, &todo);
        } else if (v.why[0] && list_find(&pass, name)) {
            CHECK_MSG(false, "%s passed once: %s %s; nothing is written", name, v.why, v.detail);
            lost++;
        }
    }
    if (update && lost == 0)
        CHECK(list_write(&new_pass, pass_path, pass_head) &&
              list_write(&new_todo, todo_path, todo_head));
    if (!update)
        CHECK_MSG(pass.count + todo.count == all->count, "%zu and %zu listed, %zu there are",
                  pass.count, todo.count, all->count);
    printf("%zu of %zu pass\n", new_pass.count, all->count);
    list_free(&pass);
    list_free(&todo);
    list_free(&new_pass);
    list_free(&new_todo);
}

static void show(const char *name)
{
    verdict v = run_case(device, stream, cases_dir, name);
    printf("%s: %s %s\n", name, v.why[0] ? v.why : "passes", v.detail);
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "test_onnx CASES LISTS [--update | NAME...]\n");
        return 2;
    }
    cases_dir = argv[1];
    CHECK_OK(um_open("cpu", &device));
    CHECK_OK(um_stream_create(device, &stream));
    bool update = argc == 4 && strcmp(argv[3], "--update") == 0;
    if (argc == 3 || update) {
        list all = {0};
        CHECK(list_folders(&all, cases_dir));
        CHECK(all.count > 0);
        TEST(test_corrupt_files);
        TEST(test_comparison);
        check_all(&all, argv[2], update);
        list_free(&all);
    }
    for (int i = 3; i < argc && !update; i++) show(argv[i]);
    um_stream_release(stream);
    um_device_release(device);
    return TEST_RESULT();
}
