// Images, and the device arrays of a module (module.c, module_global.c).

#ifndef JVGPU_SIM_MODULE_H
#define JVGPU_SIM_MODULE_H

#include "driver.h"

typedef struct sim_global_s sim_global_t;

// returns: what the file holds, to be freed, with a 0 behind it; NULL when it cannot be read
char *sim_file_read(const char *path, size_t *bytes);

// Tells of each device variable: its content, NULL for zeroes. What is told may refuse by returning false.
typedef bool sim_variable_told_t(const char *name, size_t bytes, const void *content, void *whom);

// Of a cubin; another image has none. `bytes` is SIZE_MAX where nobody said how long the image is (module_cubin.c).
// returns: false when one was refused
bool sim_cubin_variables(const void *image, size_t bytes, sim_variable_told_t *told, void *whom);

// Makes a cubin's variables, or the arrays that a PTX text declares as `.global .align 4 .b8 NAME[BYTES];`, in the current
// context; without one, or in another image, there are none.
// returns: false when the board is full; nothing is made then
bool sim_globals_load(const void *image, size_t bytes, sim_global_t **globals);
void sim_globals_unload(sim_global_t *globals);
// returns: whether there is such an array; its place and size where they are asked for
bool sim_globals_find(const sim_global_t *globals, const char *name, CUdeviceptr *dptr, size_t *bytes);

#endif
