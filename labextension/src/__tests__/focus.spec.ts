import { keepFocus } from '../focus';

function add(tag: string, parent: HTMLElement = document.body): HTMLElement {
  const node = parent.appendChild(document.createElement(tag));
  node.tabIndex = 0;
  return node;
}

function press(key: string, shiftKey = false): void {
  document.activeElement!.dispatchEvent(
    new KeyboardEvent('keydown', { key, shiftKey, bubbles: true })
  );
}

describe('keepFocus', () => {
  let giver: HTMLElement;
  let panel: HTMLElement;
  let control: HTMLElement;
  let elsewhere: HTMLElement;

  /** Hand the focus over, and let whoever waits for that act. */
  async function handOver(node = giver): Promise<void> {
    node.focus();
    await jest.advanceTimersByTimeAsync(0);
  }

  beforeEach(async () => {
    jest.useFakeTimers({ doNotFake: ['queueMicrotask'] });
    document.body.replaceChildren();
    [giver, panel, elsewhere] = ['main', 'div', 'div'].map(tag => add(tag));
    control = add('button', panel);
    giver.focus();
    keepFocus(panel, () => giver);
    await jest.advanceTimersByTimeAsync(0);
  });

  afterEach(() => {
    jest.runAllTimers();
    jest.useRealTimers();
  });

  it('takes the focus at once', () => {
    expect(document.activeElement).toBe(panel);
  });

  it('takes it back each time that it is handed over', async () => {
    const inside = add('input', giver);

    for (const node of [giver, inside, giver]) {
      await handOver(node);
      expect(document.activeElement).toBe(panel);
    }
  });

  it('has it where Tab came to', async () => {
    press('Tab');
    control.focus();

    await handOver();

    expect(document.activeElement).toBe(control);
  });

  it('has it back before the next key', async () => {
    giver.focus();
    await Promise.resolve();

    expect(document.activeElement).toBe(panel);
  });

  it.each(['ArrowDown', 'Escape', 'a'])('ends with the key %s', async key => {
    press(key);

    await handOver();

    expect(document.activeElement).toBe(giver);
  });

  it('lets who goes back leave', async () => {
    press('Shift');
    press('Tab', true);

    await handOver();

    expect(document.activeElement).toBe(giver);
  });

  it('ends with a click, and once the focus is somewhere else', async () => {
    document.dispatchEvent(new Event('pointerdown'));
    await handOver();
    expect(document.activeElement).toBe(giver);

    keepFocus(panel, () => giver);
    await handOver(elsewhere);
    expect(document.activeElement).toBe(elsewhere);
    await handOver();
    expect(document.activeElement).toBe(giver);
  });

  it('ends by itself', async () => {
    await jest.advanceTimersByTimeAsync(3000);

    await handOver();

    expect(document.activeElement).toBe(giver);
  });

  it('gives in to who insists', async () => {
    for (let times = 0; times < 50; times++) {
      await handOver();
    }

    expect(document.activeElement).toBe(giver);
  });
});
