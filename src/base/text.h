/* base/text.h: text that grows as it is written. */
#ifndef UM_BASE_TEXT_H
#define UM_BASE_TEXT_H

#include "base/base.h"

/* Zero-initialised is empty. A failed write makes all later ones do nothing; status says so at the
 * end. */
typedef struct um_text {
    char *data; /* with a 0 at the end, or NULL while nothing was written */
    int64_t size, capacity;
    um_status status;
} um_text;

void um_text_put(um_text *text, const char *data, size_t size);
void um_text_print(um_text *text, const char *format, ...) UM_PRINTF(2, 3);
void um_text_release(um_text *text);

#endif
