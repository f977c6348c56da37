/**
 * One chart on a canvas. Loaded only when a chart is shown: it brings uPlot.
 * Colours are names of CSS variables, looked up at each drawing, of which a
 * change of theme asks for one.
 */

import uPlot from 'uplot';

/** One line of a chart. */
export interface IPlotLine {
  readonly values: readonly (number | null)[];
  /** Name of a CSS variable. */
  readonly colour: string;
  readonly isDashed?: boolean;
  /** Shade down to the line of this index, or to the ground for -1. */
  readonly shadeTo?: number;
}

/** What a chart shows now. */
export interface IPlotData {
  readonly time: readonly number[];
  readonly lines: readonly IPlotLine[];
  /** How far back the chart reaches from the newest point. */
  readonly seconds: number;
}

const HEIGHT = 110;
const SHADE = '4d';
/*
 * Between times of day on the axis, in seconds: uPlot's own leave a panel's
 * five minutes with one, and without the three minutes a narrow one's with none.
 */
const STEPS = [10, 20, 30, 60, 120, 180, 300, 600, 1200, 1800, 3600];
/* Half of what a time of day takes on the axis, in pixels. */
const HALF_CLOCK = 22;
const FONT = '10px system-ui, sans-serif';

/** A chart whose number of lines and top never change. */
export class Plot {
  /**
   * @param node - Where the chart goes; it follows the node's width.
   * @param data - What it shows first.
   * @param top - Value at the upper edge.
   * @param label - Writes a value at the axis.
   */
  constructor(
    node: HTMLElement,
    data: IPlotData,
    top: number,
    label: (value: number) => string
  ) {
    this._data = data;
    const ink = (): string => colour(node, '--jp-ui-font-color1');
    const axis: uPlot.Axis = {
      stroke: ink,
      font: FONT,
      grid: { stroke: () => colour(node, '--jp-border-color2'), width: 1 },
      ticks: { show: false }
    };
    this._plot = new uPlot(
      {
        width: Math.max(1, node.clientWidth),
        height: HEIGHT,
        legend: { show: false },
        cursor: { show: false },
        padding: [6, 4, 0, 0],
        scales: {
          x: { time: true, range: () => this._range() },
          y: { range: [0, top] }
        },
        axes: [
          { ...axis, size: 22, space: 56, incrs: STEPS, values: clocks },
          {
            ...axis,
            size: 44,
            splits: () => [0, top / 2, top],
            values: (_, values) => values.map(label)
          }
        ],
        series: [{}, ...data.lines.map(line => series(node, line))],
        bands: data.lines.flatMap((line, index) =>
          (line.shadeTo ?? -1) >= 0
            ? [
                {
                  series: [index + 1, line.shadeTo! + 1] as uPlot.Band.Bounds,
                  fill: () => colour(node, line.colour) + SHADE
                }
              ]
            : []
        )
      },
      columns(data),
      node
    );
    this._observer = new ResizeObserver(() => {
      if (node.clientWidth > 0) {
        this._plot.setSize({ width: node.clientWidth, height: HEIGHT });
      }
    });
    this._observer.observe(node);
    this._themes.observe(document.body, {
      attributeFilter: ['data-jp-theme-name']
    });
  }

  /** Show something newer. */
  update(data: IPlotData): void {
    this._data = data;
    this._plot.setData(columns(data));
  }

  dispose(): void {
    this._observer.disconnect();
    this._themes.disconnect();
    this._plot.destroy();
  }

  private _range(): [number, number] {
    const { time, seconds } = this._data;
    const newest = time[time.length - 1] ?? Date.now() / 1000;
    return [newest - seconds, newest];
  }

  private _data: IPlotData;
  private readonly _plot: uPlot;
  private readonly _observer: ResizeObserver;
  private readonly _themes = new MutationObserver(() => this._plot.redraw());
}

function columns(data: IPlotData): uPlot.AlignedData {
  return [[...data.time], ...data.lines.map(line => [...line.values])];
}

function series(node: HTMLElement, line: IPlotLine): uPlot.Series {
  return {
    stroke: () => colour(node, line.colour),
    width: 1.5,
    dash: line.isDashed ? [4, 3] : undefined,
    fill:
      line.shadeTo === -1 ? () => colour(node, line.colour) + SHADE : undefined,
    points: { show: false }
  };
}

/** Times of day: to the second only where they are less than minutes apart, and none that the edge would cut. */
function clocks(plot: uPlot, times: number[]): string[] {
  const form: Intl.DateTimeFormatOptions = times.some(time => time % 60 !== 0)
    ? { hour: 'numeric', minute: '2-digit', second: '2-digit', hour12: false }
    : { hour: 'numeric', minute: '2-digit' };
  const right = plot.bbox.width / devicePixelRatio - HALF_CLOCK;
  return times.map(time =>
    plot.valToPos(time, 'x') > right
      ? ''
      : new Date(time * 1000).toLocaleTimeString([], form)
  );
}

const canvas = document.createElement('canvas').getContext('2d');

/** The variable's colour as `#rrggbb`, whatever way the theme writes it. */
function colour(node: HTMLElement, name: string): string {
  if (!canvas) {
    return '#808080';
  }
  canvas.fillStyle = '#808080';
  canvas.fillStyle = getComputedStyle(node).getPropertyValue(name).trim();
  return canvas.fillStyle.startsWith('#') ? canvas.fillStyle : '#808080';
}
