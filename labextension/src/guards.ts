/** What the guards of all that is sent have in common. */

export function isAbsentOr(
  value: unknown,
  isItem: (item: unknown) => boolean
): boolean {
  return value === undefined || isItem(value);
}

/** A finite number that is not negative. */
export function isAmount(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0;
}

export function isListOf<T>(
  value: unknown,
  isItem: (item: unknown) => item is T
): value is readonly T[] {
  return Array.isArray(value) && value.every(isItem);
}
