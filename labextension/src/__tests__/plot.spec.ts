/** A canvas of which only the texts are kept; jsdom has none. */
const written: string[] = [];
const context = new Proxy<Record<string, unknown>>(
  { fillStyle: '#000000' },
  {
    get: (target, name) =>
      name === 'fillText'
        ? (text: string) => written.push(text)
        : (target[String(name)] ?? ((): object => ({ width: 0 })))
  }
);

/** Minutes back, as offered, and what is left for a chart in a panel of 200 and one of 250 pixels. */
const CASES = [1, 5, 15, 60].flatMap(minutes => [
  [minutes, 168],
  [minutes, 226]
]);

let Plot: typeof import('../plot').Plot;

beforeAll(() => {
  const canvas = HTMLCanvasElement.prototype as { getContext: unknown };
  canvas.getContext = () => context;
  Object.assign(globalThis, {
    Path2D: function Path2D() {
      return context;
    },
    ResizeObserver: class {
      observe(): void {}
      disconnect(): void {}
    },
    matchMedia: () => ({ addEventListener: () => {} }),
    devicePixelRatio: 1
  });
  // Looks for a canvas as soon as it is loaded.
  ({ Plot } = jest.requireActual<typeof import('../plot')>('../plot'));
});

it.each(CASES)(
  'tells a time of day over the last %i min on %i pixels, whatever the time',
  async (minutes, width) => {
    const node = document.createElement('div');
    Object.defineProperty(node, 'clientWidth', { value: width });
    const seconds = 60 * minutes;
    const at = (newest: number) => ({
      time: [newest - seconds, newest],
      lines: [{ values: [0, 1], colour: '--jp-brand-color1' }],
      seconds
    });
    const noon = new Date(2026, 0, 15, 12).getTime() / 1000;
    const plot = new Plot(node, at(noon), 1, String);

    for (let newest = noon; newest < noon + seconds; newest += seconds / 24) {
      written.length = 0;
      plot.update(at(newest));
      await Promise.resolve();
      const clocks = written.filter(text => /\d:\d\d/.test(text));
      expect(clocks.length).toBeGreaterThan(0);
      expect(clocks.length).toBeLessThan(width / 44);
    }
    plot.dispose();
  }
);
