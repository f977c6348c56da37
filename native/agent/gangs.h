// Gangs in the agent: which devices are governed together, since a claim that works has several of them.
// threads: the steering's lock is held.
//
// Devices that claims at work connect are a *group*, and governed as one cohort (gang.h): a claim's gates are opened
// and closed on all its devices together. Groups are formed when such a claim begins to work, and dissolved some time
// after the last has stopped; all other devices are governed by themselves. What cannot be grouped, for want of
// memory or because there are too many claims, is as natively: a claim of several devices has its gates open.

#ifndef JVGPU_GANGS_H
#define JVGPU_GANGS_H

#include <stdint.h>

#include "device.h"
#include "records.h"

typedef struct jvgpu_gangs_s jvgpu_gangs_t;

// returns: NULL when memory is short.
jvgpu_gangs_t *jvgpu_gangs_make(void);
void jvgpu_gangs_free(jvgpu_gangs_t *gangs);

// Form and dissolve groups, if it is time to. pre: count <= JVGPU_MOST_COHORT_DEVICES; always the same devices.
void jvgpu_gangs_gather(jvgpu_gangs_t *gangs, jvgpu_steered_device_t *devices, uint32_t count, uint64_t at_ns);
// Every device is by itself again, until they are gathered: before anybody is added or removed.
void jvgpu_gangs_dissolve(jvgpu_gangs_t *gangs);

// Look at all groups whose time it is. returns: when to come again, UINT64_MAX where there are none.
uint64_t jvgpu_gangs_look(jvgpu_gangs_t *gangs, jvgpu_records_t *records, uint64_t at_ns);

#endif
