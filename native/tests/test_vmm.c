// Physical memory of one process: handles, mappings, holders.

#include "check.h"
#include "vmm.h"

static void memory_lives_while_it_is_mapped(void)
{
  // catches a bug where create, map, release of the handle made the charge vanish (CASES 8)
  static jvgpu_vmm_t vmm;
  jvgpu_freed_t      freed = {0};

  jvgpu_vmm_create(&vmm, 0x100, 64, 0);
  jvgpu_vmm_map(&vmm, 0x7000, 64, 0x100);
  jvgpu_vmm_release(&vmm, 0x100, &freed);
  CHECK("releasing the handle of mapped memory frees nothing", freed.bytes[0] == 0);
  jvgpu_vmm_release(&vmm, 0x100, &freed);
  CHECK("releasing it again frees nothing either", freed.bytes[0] == 0);
  jvgpu_vmm_unmap(&vmm, 0x7000, 64, &freed);
  CHECK("the last mapping frees it", freed.bytes[0] == 64 && freed.count[0] == 1);
}

static void handles_are_counted(void)
{
  static jvgpu_vmm_t vmm;
  jvgpu_freed_t      freed = {0};

  jvgpu_vmm_create(&vmm, 0x100, 64, 0);
  jvgpu_vmm_map(&vmm, 0x7000, 64, 0x100);
  jvgpu_vmm_retain(&vmm, 0x100, 0x7010);
  jvgpu_vmm_unmap(&vmm, 0x7000, 64, &freed);
  CHECK("a handle keeps unmapped memory alive", freed.bytes[0] == 0);
  jvgpu_vmm_release(&vmm, 0x100, &freed);
  CHECK("a retained handle has to be released twice", freed.bytes[0] == 0);
  jvgpu_vmm_release(&vmm, 0x100, &freed);
  CHECK("the second release frees it", freed.bytes[0] == 64);
}

static void one_unmap_covers_several_mappings(void)
{
  static jvgpu_vmm_t vmm;
  jvgpu_freed_t      freed = {0};

  for (uint64_t i = 0; i < 4; i++) {
    jvgpu_vmm_create(&vmm, 0x100 + i, 64, 0);
    // The third was mapped by somebody else: a hole in what we know.
    if (i != 2) {
      jvgpu_vmm_map(&vmm, 0x7000 + 64 * i, 64, 0x100 + i);
    }
    jvgpu_vmm_release(&vmm, 0x100 + i, &freed);
  }
  freed = (jvgpu_freed_t){0};
  jvgpu_vmm_unmap(&vmm, 0x7000, 4 * 64, &freed);
  CHECK("a range gives back each whole mapping in it", freed.bytes[0] == 3 * 64 && freed.count[0] == 3);
}

static void a_sparse_array_holds_what_is_in_it(void)
{
  static jvgpu_vmm_t vmm;
  jvgpu_freed_t      freed = {0};

  jvgpu_vmm_create(&vmm, 0x100, 64, 0);
  jvgpu_vmm_create(&vmm, 0x101, 32, 1);
  jvgpu_vmm_hold(&vmm, 0x7fff0000, 5, 0x100, &freed);
  jvgpu_vmm_hold(&vmm, 0x7fff0000, 6, 0x101, &freed);
  jvgpu_vmm_release(&vmm, 0x100, &freed);
  jvgpu_vmm_release(&vmm, 0x101, &freed);
  CHECK("memory in an array lives on without its handle", freed.count[0] + freed.count[1] == 0);
  jvgpu_vmm_let_go(&vmm, 0x7fff0000, 7, &freed);
  jvgpu_vmm_let_go(&vmm, 0x7fff1000, 5, &freed);
  CHECK("unmapping another place, or of another array, frees nothing", freed.count[0] + freed.count[1] == 0);
  jvgpu_vmm_let_go(&vmm, 0x7fff0000, 5, &freed);
  CHECK("unmapping its place frees it", freed.bytes[0] == 64 && freed.bytes[1] == 0);
  jvgpu_vmm_holder_gone(&vmm, 0x7fff0000, &freed);
  CHECK("the array takes the rest with it", freed.bytes[1] == 32);
}

static void a_place_has_one_memory_at_a_time(void)
{
  static jvgpu_vmm_t vmm;
  jvgpu_freed_t      freed = {0};

  jvgpu_vmm_create(&vmm, 0x100, 64, 0);
  jvgpu_vmm_create(&vmm, 0x101, 32, 0);
  jvgpu_vmm_hold(&vmm, 0x7fff0000, 5, 0x100, &freed);
  jvgpu_vmm_release(&vmm, 0x100, &freed);
  jvgpu_vmm_hold(&vmm, 0x7fff0000, 5, 0x101, &freed);
  CHECK("mapping another piece to a place lets the first go", freed.bytes[0] == 64);
  jvgpu_vmm_hold(&vmm, 0x7fff0000, 5, 0x101, &freed);
  jvgpu_vmm_release(&vmm, 0x101, &freed);
  CHECK("mapping the same piece again keeps it", freed.bytes[0] == 64);
  jvgpu_vmm_hold(&vmm, 0x7fff0000, 5, 0x999, &freed);
  CHECK("mapping somebody else's lets it go", freed.bytes[0] == 64 + 32);
}

static void a_multicast_object_holds_what_is_bound_to_it(void)
{
  static jvgpu_vmm_t vmm;
  jvgpu_freed_t      freed = {0};

  jvgpu_vmm_create(&vmm, 0x200, 0, 0);
  for (uint64_t device = 0; device < 2; device++) {
    jvgpu_vmm_create(&vmm, 0x100 + device, 64, (uint32_t)device);
    jvgpu_vmm_bind(&vmm, 0x200, 0, 0x100 + device, &freed);
    jvgpu_vmm_release(&vmm, 0x100 + device, &freed);
  }
  CHECK("bound memory lives on without its handle", freed.count[0] + freed.count[1] == 0);
  jvgpu_vmm_unbind(&vmm, 0x200, 0, 1, &freed);
  CHECK("unbinding one device frees that device's", freed.bytes[0] == 0 && freed.bytes[1] == 64);
  jvgpu_vmm_map(&vmm, 0x9000, 64, 0x200);
  jvgpu_vmm_release(&vmm, 0x200, &freed);
  CHECK("an object that is mapped still holds", freed.bytes[0] == 0);
  jvgpu_vmm_unmap(&vmm, 0x9000, 64, &freed);
  CHECK("one that is gone does not, and counts for nothing itself", freed.bytes[0] == 64 && freed.count[0] == 1);
}

int main(void)
{
  memory_lives_while_it_is_mapped();
  handles_are_counted();
  one_unmap_covers_several_mappings();
  a_sparse_array_holds_what_is_in_it();
  a_place_has_one_memory_at_a_time();
  a_multicast_object_holds_what_is_bound_to_it();
  RESULT();
}
