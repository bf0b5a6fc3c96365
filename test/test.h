/* test/test.h: the few macros every test program uses. A test is a void function; CHECK says what
 * was expected and goes on; main runs each with TEST(fn) and returns TEST_RESULT(). */
#ifndef UM_TEST_H
#define UM_TEST_H

#include <stdio.h>
#include <string.h>
#include <umbel/base.h>

static _Atomic int um_test_checks, um_test_failures; /* threads check too */

#define CHECK(condition) CHECK_MSG(condition, "%s", "")
#define CHECK_MSG(condition, ...)                                                                  \
    do {                                                                                           \
        um_test_checks++;                                                                          \
        if (!(condition)) {                                                                        \
            um_test_failures++;                                                                    \
            fprintf(stderr, "%s:%d: %s: failed: %s ", __FILE__, __LINE__, __func__, #condition);   \
            fprintf(stderr, __VA_ARGS__);                                                          \
            fputc('\n', stderr);                                                                   \
        }                                                                                          \
    } while (0)
#define CHECK_OK(expression)                                                                       \
    do {                                                                                           \
        um_status check_status_ = (expression);                                                    \
        CHECK_MSG(check_status_ == UM_OK, "-> %s: %s", um_status_name(check_status_),              \
                  um_last_error()->message);                                                       \
    } while (0)
/* The expected failure, with a text its message must hold. */
#define CHECK_FAILS(expression, code, text)                                                        \
    do {                                                                                           \
        um_status check_status_ = (expression);                                                    \
        CHECK_MSG(check_status_ == (code), "-> %s, wanted %s", um_status_name(check_status_),      \
                  um_status_name(code));                                                           \
        CHECK_MSG(strstr(um_last_error()->message, (text)) != NULL, "message: %s",                 \
                  um_last_error()->message);                                                       \
    } while (0)
#define TEST(function)                                                                             \
    do {                                                                                           \
        int before_ = um_test_failures;                                                            \
        function();                                                                                \
        printf("%s %s\n", um_test_failures == before_ ? "ok  " : "FAIL", #function);               \
    } while (0)
#define TEST_RESULT()                                                                              \
    (printf("%d checks, %d failed\n", um_test_checks, um_test_failures), um_test_failures != 0)

#endif
