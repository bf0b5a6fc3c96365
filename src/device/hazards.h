/* device/hazards.h: memory that commands use, for drivers of APIs where barriers make the order. */
#ifndef UM_DEVICE_HAZARDS_H
#define UM_DEVICE_HAZARDS_H

#include <umbel/op.h>

typedef struct um_use {
    um_ptr begin, end;
    bool written;
} um_use;

enum { UM_HAZARD_USES = 64 };

/* What commands since the last barrier use; all 0: nothing. */
typedef struct um_hazards {
    um_use use[UM_HAZARD_USES];
    int32_t count;
} um_hazards;

/* Notes the uses of one command, at most UM_HAZARD_USES. true: a barrier has to be before it, since
 * one of them and one noted are of the same bytes and not both reads, or there is no room to note
 * them; from then on they are the only ones. */
bool um_hazards_meet(um_hazards *hazards, int32_t count, const um_use *use);

#endif
