// Device variables of a cubin: an ELF file that says in its symbol table what lies in which section. What is compiled by
// NVIDIA's tools and not kept as PTX comes so.

#include <elf.h>
#include <string.h>

#include "module.h"

typedef struct sim_cubin_s {
  const char       *start;
  size_t            bytes;
  const Elf64_Shdr *sections;
  size_t            count;
  const char       *names;  // of sections
  size_t            names_bytes;
} sim_cubin_t;

// returns: NULL where the file has no such place, or its section no content
static const void *place_of(const sim_cubin_t *cubin, uint64_t offset, uint64_t bytes)
{
  return offset <= cubin->bytes && bytes <= cubin->bytes - offset ? cubin->start + offset : NULL;
}

// returns: "" for what does not end within its table
static const char *name_of(const char *names, size_t bytes, uint32_t at)
{
  return names != NULL && at < bytes && memchr(names + at, 0, bytes - at) != NULL ? names + at : "";
}

static bool open_cubin(sim_cubin_t *cubin)
{
  const Elf64_Ehdr *header = place_of(cubin, 0, sizeof *header);
  if (header == NULL || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64 ||
      header->e_machine != EM_CUDA || header->e_shentsize != sizeof *cubin->sections) {
    return false;
  }
  cubin->count = header->e_shnum;
  cubin->sections = place_of(cubin, header->e_shoff, cubin->count * sizeof *cubin->sections);
  if (cubin->sections == NULL || header->e_shstrndx >= cubin->count) {
    return false;
  }
  cubin->names_bytes = cubin->sections[header->e_shstrndx].sh_size;
  cubin->names = place_of(cubin, cubin->sections[header->e_shstrndx].sh_offset, cubin->names_bytes);
  return cubin->names != NULL;
}

static bool holds_variables(const sim_cubin_t *cubin, size_t section)
{
  const char *name =
      section < cubin->count ? name_of(cubin->names, cubin->names_bytes, cubin->sections[section].sh_name) : "";
  return strcmp(name, ".nv.global") == 0 || strcmp(name, ".nv.global.init") == 0 || strcmp(name, ".nv.constant3") == 0;
}

static bool tell_symbols(const sim_cubin_t *cubin, const Elf64_Shdr *table, sim_variable_told_t *told, void *whom)
{
  const Elf64_Sym  *symbols = place_of(cubin, table->sh_offset, table->sh_size);
  const Elf64_Shdr *strings = table->sh_link < cubin->count ? &cubin->sections[table->sh_link] : NULL;
  const char       *names = strings == NULL ? NULL : place_of(cubin, strings->sh_offset, strings->sh_size);
  for (size_t i = 0; symbols != NULL && names != NULL && i < table->sh_size / sizeof *symbols; i++) {
    const Elf64_Sym *symbol = &symbols[i];
    if (!holds_variables(cubin, symbol->st_shndx)) {
      continue;
    }
    const Elf64_Shdr *section = &cubin->sections[symbol->st_shndx];
    const void       *content =
        section->sh_type == SHT_NOBITS ? NULL : place_of(cubin, section->sh_offset + symbol->st_value, symbol->st_size);
    if (!told(name_of(names, strings->sh_size, symbol->st_name), symbol->st_size, content, whom)) {
      return false;
    }
  }
  return true;
}

bool sim_cubin_variables(const void *image, size_t bytes, sim_variable_told_t *told, void *whom)
{
  sim_cubin_t cubin = {.start = image, .bytes = bytes};
  if (!open_cubin(&cubin)) {
    return true;
  }
  for (size_t i = 0; i < cubin.count; i++) {
    if (cubin.sections[i].sh_type == SHT_SYMTAB && !tell_symbols(&cubin, &cubin.sections[i], told, whom)) {
      return false;
    }
  }
  return true;
}
