// Names and texts of error codes.

#include "driver.h"

static const struct {
  int         code;
  const char *name;
  const char *text;
} errors[] = {
#define SIM_ERROR(code, name, text) {code, #name, text},
#include "errors.def"
#undef SIM_ERROR
};

SIM_API CUresult cuGetErrorName(CUresult error, const char **name)
{
  if (name == NULL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *name = NULL;
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
    if (errors[i].code == (int)error) {
      *name = errors[i].name;
      return CUDA_SUCCESS;
    }
  }
  return CUDA_ERROR_INVALID_VALUE;
}

SIM_API CUresult cuGetErrorString(CUresult error, const char **text)
{
  if (text == NULL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *text = NULL;
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
    if (errors[i].code == (int)error) {
      *text = errors[i].text;
      return CUDA_SUCCESS;
    }
  }
  return CUDA_ERROR_INVALID_VALUE;
}
