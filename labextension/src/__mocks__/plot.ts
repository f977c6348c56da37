/** Stands in for the chart in unit tests: it draws on a canvas, which jsdom does not have; the browser tests see it. */
export class Plot {
  update = jest.fn();
  dispose = jest.fn();
}
