/* Memory that commands use; see hazards.h. */
#include "device/hazards.h"

static bool meets(const um_hazards *hazards, const um_use *use)
{
    for (int32_t i = 0; i < hazards->count; i++) {
        const um_use *before = &hazards->use[i];
        if ((before->written || use->written) && before->begin < use->end &&
            use->begin < before->end)
            return true;
    }
    return false;
}

bool um_hazards_meet(um_hazards *hazards, int32_t count, const um_use *use)
{
    bool meet = hazards->count + count > UM_HAZARD_USES;
    for (int32_t i = 0; i < count && !meet; i++) meet = meets(hazards, &use[i]);
    if (meet) hazards->count = 0;
    for (int32_t i = 0; i < count; i++) hazards->use[hazards->count++] = use[i];
    return meet;
}
