// The ledger: pointers, handles and mappings of one process.

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "ledger.h"

#define MANY 200000u

static void pointers_come_and_go(void)
{
  static jvgpu_ledger_t ledger;
  jvgpu_record_t        taken;
  uint64_t              sum = 0;
  bool                  all_put = true;
  bool                  all_taken = true;

  for (uint64_t i = 1; i <= MANY; i++) {
    const jvgpu_record_t record = {.key = i << 9, .bytes = i, .owner = i % 3, .device = 0};
    all_put = all_put && jvgpu_ledger_put(&ledger, &record);
  }
  CHECK("many records fit", all_put);
  CHECK("an unknown pointer is not found", !jvgpu_ledger_take(&ledger, 7, &taken));
  // Every other one goes: deletion must not cut off what probed past it.
  for (uint64_t i = 2; i <= MANY; i += 2) {
    all_taken = all_taken && jvgpu_ledger_take(&ledger, i << 9, &taken) && taken.bytes == i;
  }
  for (uint64_t i = 1; i <= MANY; i += 2) {
    all_taken = all_taken && jvgpu_ledger_take(&ledger, i << 9, &taken) && taken.bytes == i;
    sum += taken.bytes;
  }
  CHECK("each record is found once, with what it was put in with", all_taken);
  CHECK("nothing is counted twice", sum == (uint64_t)(MANY / 2) * (MANY / 2));
  CHECK("a second free of the same pointer finds nothing", !jvgpu_ledger_take(&ledger, 1 << 9, &taken));
}

static void a_context_takes_its_own(void)
{
  static jvgpu_ledger_t ledger;
  uint64_t              freed[2] = {0, 0};
  jvgpu_record_t        taken;

  for (uint64_t i = 1; i <= 1000; i++) {
    const jvgpu_record_t record = {.key = i << 21, .bytes = 10, .owner = i % 2 + 1, .device = (uint32_t)(i % 2)};
    jvgpu_ledger_put(&ledger, &record);
  }
  jvgpu_ledger_take_owner(&ledger, 2, freed);
  CHECK("a destroyed context gives back all of its own", freed[1] == 5000);
  CHECK("and nothing of another context's", freed[0] == 0);
  CHECK("the other context's records are still there", jvgpu_ledger_take(&ledger, UINT64_C(2) << 21, &taken));
  CHECK("its own are gone", !jvgpu_ledger_take(&ledger, UINT64_C(1) << 21, &taken));
}

static void memory_lives_while_it_is_mapped(void)
{
  // catches a bug where create, map, release of the handle made the charge vanish (CASES 8)
  static jvgpu_vmm_t vmm;
  jvgpu_record_t     gone;
  uint64_t           freed[1] = {0};

  jvgpu_vmm_create(&vmm, 0x100, 64, 0);
  jvgpu_vmm_map(&vmm, 0x7000, 64, 0x100);
  CHECK("releasing the handle of mapped memory frees nothing", !jvgpu_vmm_release(&vmm, 0x100, &gone));
  CHECK("releasing it again frees nothing either", !jvgpu_vmm_release(&vmm, 0x100, &gone));
  jvgpu_vmm_unmap(&vmm, 0x7000, 64, freed);
  CHECK("the last mapping frees it", freed[0] == 64);
}

static void handles_are_counted(void)
{
  static jvgpu_vmm_t vmm;
  jvgpu_record_t     gone;
  uint64_t           freed[1] = {0};

  jvgpu_vmm_create(&vmm, 0x100, 64, 0);
  jvgpu_vmm_map(&vmm, 0x7000, 64, 0x100);
  jvgpu_vmm_retain(&vmm, 0x100, 0x7010);
  jvgpu_vmm_unmap(&vmm, 0x7000, 64, freed);
  CHECK("a handle keeps unmapped memory alive", freed[0] == 0);
  CHECK("a retained handle has to be released twice", !jvgpu_vmm_release(&vmm, 0x100, &gone));
  CHECK("the second release frees it", jvgpu_vmm_release(&vmm, 0x100, &gone) && gone.bytes == 64);
}

static void one_unmap_covers_several_mappings(void)
{
  static jvgpu_vmm_t vmm;
  jvgpu_record_t     gone;
  uint64_t           freed[1] = {0};

  for (uint64_t i = 0; i < 4; i++) {
    jvgpu_vmm_create(&vmm, 0x100 + i, 64, 0);
    // The third was mapped by somebody else: a hole in what we know.
    if (i != 2) {
      jvgpu_vmm_map(&vmm, 0x7000 + 64 * i, 64, 0x100 + i);
    }
    (void)jvgpu_vmm_release(&vmm, 0x100 + i, &gone);
  }
  jvgpu_vmm_unmap(&vmm, 0x7000, 4 * 64, freed);
  CHECK("a range gives back each whole mapping in it", freed[0] == 3 * 64);
}

static jvgpu_ledger_t shared;

static void *hammer(void *argument)
{
  const uint64_t base = (uint64_t)(uintptr_t)argument << 40;
  uint64_t       lost = 0;
  for (int round = 0; round < 200; round++) {
    for (uint64_t i = 1; i <= 200; i++) {
      const jvgpu_record_t record = {.key = base + (i << 9), .bytes = i};
      jvgpu_ledger_put(&shared, &record);
    }
    for (uint64_t i = 1; i <= 200; i++) {
      jvgpu_record_t taken;
      lost += !jvgpu_ledger_take(&shared, base + (i << 9), &taken) || taken.bytes != i;
    }
  }
  return (void *)(uintptr_t)lost;
}

static void threads_do_not_lose_records(void)
{
  pthread_t threads[8];
  uintptr_t lost = 0;
  for (uintptr_t i = 0; i < 8; i++) {
    pthread_create(&threads[i], NULL, hammer, (void *)(i + 1));
  }
  for (int i = 0; i < 8; i++) {
    void *result;
    pthread_join(threads[i], &result);
    lost += (uintptr_t)result;
  }
  CHECK("eight threads find every record they put", lost == 0);
}

int main(void)
{
  pointers_come_and_go();
  a_context_takes_its_own();
  memory_lives_while_it_is_mapped();
  handles_are_counted();
  one_unmap_covers_several_mappings();
  threads_do_not_lose_records();
  RESULT();
}
