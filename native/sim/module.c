// Modules and libraries: any image will do, and holds a function of every name one asks for. Of an image that is a cubin
// or PTX text, the device variables count (module_global.c).

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "module.h"

#define MODULE_MAGIC 0x4d4f4455u

// A module and a library are the same thing here, and a kernel is a function.
struct CUmod_st {
  uint32_t      magic;
  CUfunction    functions;
  unsigned int  count;
  sim_global_t *globals;
};

static bool is_module(CUmodule module)
{
  return module != NULL && module->magic == MODULE_MAGIC;
}

// `bytes` is SIZE_MAX where the caller is not told how long its image is.
typedef CUresult sim_load_t(CUmodule *out, const void *image, size_t bytes);

static CUresult load(CUmodule *out, const void *image, size_t bytes)
{
  const CUresult ready = sim_ready();
  if (ready != CUDA_SUCCESS) {
    return ready;
  }
  if (out == NULL || image == NULL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (*(const char *)image == 0) {
    return CUDA_ERROR_INVALID_IMAGE;
  }
  CUmodule module = calloc(1, sizeof *module);
  if (module == NULL) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (!sim_globals_load(image, bytes, &module->globals)) {
    free(module);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  module->magic = MODULE_MAGIC;
  *out = module;
  return CUDA_SUCCESS;
}

static CUresult load_in_context(CUmodule *module, const void *image, size_t bytes)
{
  CUcontext      context;
  const CUresult result = sim_current(&context);
  return result == CUDA_SUCCESS ? load(module, image, bytes) : result;
}

char *sim_file_read(const char *path, size_t *bytes)
{
  enum { MOST_BYTES = 256 << 20 };  // some files never end
  char  *content = NULL;
  size_t room = 0;
  FILE  *file = fopen(path, "re");
  *bytes = 0;
  while (file != NULL && *bytes == room && room < MOST_BYTES) {
    room += 1 << 20;
    char *larger = realloc(content, room + 1);
    if (larger == NULL) {
      break;
    }
    content = larger;
    *bytes += fread(content + *bytes, 1, room - *bytes, file);
  }
  if (file != NULL) {
    fclose(file);
  }
  if (*bytes == 0 || *bytes == room) {
    free(content);
    return NULL;
  }
  content[*bytes] = 0;
  return content;
}

static CUresult load_file(CUmodule *out, const char *path, sim_load_t *load_image)
{
  if (path == NULL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  size_t bytes;
  char  *image = sim_file_read(path, &bytes);
  if (image == NULL) {
    return CUDA_ERROR_FILE_NOT_FOUND;
  }
  const CUresult result = load_image(out, image, bytes);
  free(image);
  return result;
}

SIM_API CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
  return load_in_context(module, image, SIZE_MAX);
}

SIM_API CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count, CUjit_option *options,
                                    void **values)
{
  (void)count;
  (void)options;
  (void)values;
  return load_in_context(module, image, SIZE_MAX);
}

SIM_API CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image)
{
  return load_in_context(module, image, SIZE_MAX);
}

SIM_API CUresult cuModuleLoad(CUmodule *module, const char *path)
{
  return load_file(module, path, load_in_context);
}

static CUresult unload(CUmodule module)
{
  const CUresult ready = sim_ready();
  if (ready != CUDA_SUCCESS || !is_module(module)) {
    return ready != CUDA_SUCCESS ? ready : CUDA_ERROR_INVALID_HANDLE;
  }
  pthread_mutex_lock(&sim_lock);
  module->magic = SIM_DEAD_MAGIC;
  while (module->functions != NULL) {
    CUfunction function = module->functions;
    module->functions = function->next;
    function->magic = SIM_DEAD_MAGIC;
    free(function);
  }
  pthread_mutex_unlock(&sim_lock);
  sim_globals_unload(module->globals);
  free(module);
  return CUDA_SUCCESS;
}

SIM_API CUresult cuModuleUnload(CUmodule module)
{
  return unload(module);
}

static CUresult find(CUfunction *out, CUmodule module, const char *name)
{
  const CUresult ready = sim_ready();
  if (ready != CUDA_SUCCESS) {
    return ready;
  }
  if (out == NULL || name == NULL || !is_module(module)) {
    return is_module(module) ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
  }
  if (name[0] == 0) {
    return CUDA_ERROR_NOT_FOUND;
  }
  pthread_mutex_lock(&sim_lock);
  CUfunction function = module->functions;
  while (function != NULL && strcmp(function->name, name) != 0) {
    function = function->next;
  }
  if (function == NULL && (function = sim_function_new(name, module)) != NULL) {
    function->next = module->functions;
    module->functions = function;
    module->count++;
  }
  pthread_mutex_unlock(&sim_lock);
  *out = function;
  return function == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

SIM_API CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
  return find(function, module, name);
}

SIM_API CUresult cuModuleGetFunctionCount(unsigned int *count, CUmodule module)
{
  if (count == NULL || !is_module(module)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *count = module->count;
  return CUDA_SUCCESS;
}

// Only functions that were asked for by name are known.
SIM_API CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned int count, CUmodule module)
{
  if (!is_module(module) || (functions == NULL && count > 0)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  pthread_mutex_lock(&sim_lock);
  CUfunction function = module->functions;
  for (unsigned int i = 0; i < count && function != NULL; i++, function = function->next) {
    functions[i] = function;
  }
  pthread_mutex_unlock(&sim_lock);
  return CUDA_SUCCESS;
}

SIM_API CUresult cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule module, const char *name)
{
  if (!is_module(module)) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (name == NULL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return sim_globals_find(module->globals, name, dptr, bytes) ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

SIM_API CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
  if (mode == NULL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *mode = CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}

SIM_API CUresult cuLibraryLoadData(CUlibrary *library, const void *image, CUjit_option *options, void **values,
                                   unsigned int count, CUlibraryOption *library_options, void **library_values,
                                   unsigned int library_count)
{
  (void)options;
  (void)values;
  (void)count;
  (void)library_options;
  (void)library_values;
  (void)library_count;
  return load((CUmodule *)library, image, SIZE_MAX);
}

SIM_API CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *path, CUjit_option *options, void **values,
                                       unsigned int count, CUlibraryOption *library_options, void **library_values,
                                       unsigned int library_count)
{
  (void)options;
  (void)values;
  (void)count;
  (void)library_options;
  (void)library_values;
  (void)library_count;
  return load_file((CUmodule *)library, path, load);
}

SIM_API CUresult cuLibraryUnload(CUlibrary library)
{
  return unload((CUmodule)library);
}

SIM_API CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
  return find((CUfunction *)kernel, (CUmodule)library, name);
}

SIM_API CUresult cuLibraryGetKernelCount(unsigned int *count, CUlibrary library)
{
  return cuModuleGetFunctionCount(count, (CUmodule)library);
}

SIM_API CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int count, CUlibrary library)
{
  return cuModuleEnumerateFunctions((CUfunction *)kernels, count, (CUmodule)library);
}

SIM_API CUresult cuLibraryGetModule(CUmodule *module, CUlibrary library)
{
  if (module == NULL || !is_module((CUmodule)library)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *module = (CUmodule)library;
  return CUDA_SUCCESS;
}

SIM_API CUresult cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
  return cuModuleGetGlobal_v2(dptr, bytes, (CUmodule)library, name);
}

SIM_API CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
  CUfunction same = (CUfunction)kernel;
  if (function == NULL || same == NULL || same->magic != SIM_FUNCTION_MAGIC) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *function = same;
  return CUDA_SUCCESS;
}

SIM_API CUresult cuKernelGetLibrary(CUlibrary *library, CUkernel kernel)
{
  CUfunction same = (CUfunction)kernel;
  if (library == NULL || same == NULL || same->magic != SIM_FUNCTION_MAGIC) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *library = (CUlibrary)same->module;
  return CUDA_SUCCESS;
}
