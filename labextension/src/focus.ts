const EVERY_MS = 100;
const TIMES = 6;

/**
 * Focus a node, and again if something takes the focus away within the next
 * moment: the command palette, once closed, hands it back to the notebook, at
 * no fixed time. Whatever the user does meanwhile ends this.
 */
export function keepFocus(node: HTMLElement): void {
  let left = TIMES;
  const timer = window.setInterval(() => {
    left -= 1;
    if (left === 0) {
      end();
    }
    node.focus();
  }, EVERY_MS);
  const end = (): void => {
    window.clearInterval(timer);
    document.removeEventListener('keydown', end, true);
    document.removeEventListener('pointerdown', end, true);
  };
  // Not the key that ran the command, whose event is under way.
  window.setTimeout(() => {
    document.addEventListener('keydown', end, true);
    document.addEventListener('pointerdown', end, true);
  });
}
