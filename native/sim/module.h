// Images, and the device arrays of a module (module.c, module_global.c).

#ifndef JVGPU_SIM_MODULE_H
#define JVGPU_SIM_MODULE_H

#include "driver.h"

typedef struct sim_global_s sim_global_t;

// returns: the file's text, to be freed; NULL when it cannot be read
char *sim_text_of(const char *path);

// Makes the arrays that a PTX text declares as `.global .align 4 .b8 NAME[BYTES];`, in the current context; without one,
// or in another image, there are none.
// returns: false when the board is full; nothing is made then
bool sim_globals_load(const char *image, sim_global_t **globals);
void sim_globals_unload(sim_global_t *globals);
// returns: whether there is such an array; its place and size where they are asked for
bool sim_globals_find(const sim_global_t *globals, const char *name, CUdeviceptr *dptr, size_t *bytes);

#endif
