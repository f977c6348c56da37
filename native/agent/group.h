// Group: devices that are governed as one cohort (gang.h), between the claims' pages and its arithmetic.
// threads: the steering's lock is held.

#ifndef JVGPU_GROUP_H
#define JVGPU_GROUP_H

#include <stdint.h>

#include "device.h"
#include "records.h"

typedef struct jvgpu_group_s jvgpu_group_t;

// Group the devices of `mask`; nobody may be added or removed there as long as they are.
// returns: NULL when memory is short or there are too many claims: each is by itself then.
jvgpu_group_t *jvgpu_group_make(jvgpu_steered_device_t *devices, uint64_t mask);
// Its devices are by themselves again.
void jvgpu_group_free(jvgpu_group_t *group);

// Look, if it is time to. returns: when to come again.
uint64_t jvgpu_group_look(jvgpu_group_t *group, jvgpu_records_t *records, uint64_t at_ns);

#endif
