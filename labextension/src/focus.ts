const LASTS_MS = 3000;
const MOST_TIMES = 20;

let endLast = (): void => undefined;

/**
 * Focus a node, and take the focus back when it is handed to `giver` within
 * the next moment: the command palette, once closed, hands it to the document
 * in front, at no fixed time and more than once. Who presses Tab meanwhile
 * goes on from the node, and keeps what they came to; whatever else they do
 * ends this.
 *
 * @param node - What to focus; stands behind `giver` in the order of the page.
 * @param giver - Where the focus is handed to though nobody asked for it.
 */
export function keepFocus(
  node: HTMLElement,
  giver: () => HTMLElement | null | undefined
): void {
  endLast();
  let kept = node;
  let left = MOST_TIMES;

  const onFocus = (event: FocusEvent): void => {
    const target = event.target as HTMLElement;
    if (node.contains(target)) {
      kept = target;
    } else if (left > 0 && giver()?.contains(target)) {
      left -= 1;
      // Once whoever handed it over is through with that, and before the next key.
      queueMicrotask(() => kept.focus());
    } else {
      end();
    }
  };
  const onKey = (event: KeyboardEvent): void => {
    const isBack = event.shiftKey && document.activeElement === node;
    if (event.key !== 'Shift' && (event.key !== 'Tab' || isBack)) {
      end();
    }
  };
  const end = (): void => {
    window.clearTimeout(begin);
    window.clearTimeout(timer);
    document.removeEventListener('keydown', onKey, true);
    document.removeEventListener('focusin', onFocus, true);
    document.removeEventListener('pointerdown', end, true);
  };
  // Not the key that ran the command, whose event is under way.
  const begin = window.setTimeout(() =>
    document.addEventListener('keydown', onKey, true)
  );
  const timer = window.setTimeout(end, LASTS_MS);
  document.addEventListener('focusin', onFocus, true);
  document.addEventListener('pointerdown', end, true);
  endLast = end;
  node.focus();
}
