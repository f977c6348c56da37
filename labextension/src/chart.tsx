import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { ILine, mean } from './history';
import type { IPlotData, IPlotLine, Plot } from './plot';
import { IDeviceUsage, ISliceDevice } from './wire';
import * as words from './words';

interface IChartProps {
  readonly line: ILine;
  readonly seconds: number;
  readonly trans: TranslationBundle;
}

/** GPU time against share and ceiling; time waited is shaded above it. */
export function GpuTimeChart(
  props: IChartProps & { device: IDeviceUsage; granted: ISliceDevice }
): React.JSX.Element {
  const { device, granted, line, seconds, trans } = props;
  const { share, ceiling } = granted;
  // One point more, at the left edge: share and ceiling are drawn all the way.
  const newest = line.time[line.time.length - 1];
  const time = newest === undefined ? [] : [newest - seconds, ...line.time];
  const always = (value: number): number[] => time.map(() => value);
  // A value and the value above it: what waited is drawn on top of what ran.
  const waited = line.gpuTime.map((value, index) => {
    const waiting = line.waiting[index];
    return value === null || waiting === null
      ? null
      : Math.min(1, value + waiting);
  });
  // What ran is drawn over what waited: where nothing did, the two are one.
  const lines: IPlotLine[] = [
    { values: [null, ...waited], colour: '--jp-warn-color1', shadeTo: 1 },
    {
      values: [null, ...line.gpuTime],
      colour: '--jp-brand-color1',
      shadeTo: -1
    },
    { values: always(share), colour: '--jp-success-color1', isDashed: true },
    { values: always(ceiling), colour: '--jp-error-color1', isDashed: true }
  ];
  const now = words.percent(device.gpu_time_fraction ?? 0);
  const waiting = words.percent(device.waiting_fraction ?? 0);
  const average = mean(line.gpuTime);
  return (
    <figure className="jp-VGPUChart">
      <Canvas
        data={{ time, lines, seconds }}
        top={1}
        label={words.percent}
        summary={trans.__(
          'GPU time over the last %1: %2 now, %3 on average; share %4, ceiling %5; %6 waiting now',
          words.duration(seconds, trans),
          now,
          average === null ? trans.__('not known') : words.percent(average),
          words.percent(share),
          words.percent(ceiling),
          waiting
        )}
      />
      <ul className="jp-VGPUChart-legend">
        <Key colour="brand" name={trans.__('GPU time')} figure="gpu-time">
          {now}
        </Key>
        <Key colour="warn" name={trans.__('waiting')} figure="waiting">
          {waiting}
        </Key>
        <Key colour="success" name={trans.__('share')} figure="share">
          {words.percent(share)}
        </Key>
        <Key colour="error" name={trans.__('ceiling')} figure="ceiling">
          {words.percent(ceiling)}
        </Key>
      </ul>
    </figure>
  );
}

/** Memory against its limit, which is the upper edge. */
export function MemoryChart(
  props: IChartProps & { device: IDeviceUsage }
): React.JSX.Element {
  const { device, line, seconds, trans } = props;
  const known = line.memory.filter((value): value is number => value !== null);
  const most = words.bytes(Math.max(0, ...known));
  return (
    <figure className="jp-VGPUChart">
      <Canvas
        data={{
          time: line.time,
          lines: [
            { values: line.memory, colour: '--jp-brand-color1', shadeTo: -1 }
          ],
          seconds
        }}
        top={Math.max(1, device.memory_limit_bytes)}
        label={words.bytesShort}
        summary={trans.__(
          'Memory over the last %1: %2 now, at most %3, limit %4',
          words.duration(seconds, trans),
          words.bytes(device.memory_used_bytes),
          most,
          words.bytes(device.memory_limit_bytes)
        )}
      />
      <ul className="jp-VGPUChart-legend">
        <Key colour="brand" name={trans.__('at most')} figure="most-memory">
          {most}
        </Key>
      </ul>
    </figure>
  );
}

function Canvas(props: {
  data: IPlotData;
  top: number;
  label: (value: number) => string;
  summary: string;
}): React.JSX.Element {
  const { data, top, label, summary } = props;
  const node = React.useRef<HTMLDivElement>(null);
  const plot = React.useRef<Plot | null>(null);
  const newest = React.useRef(data);
  newest.current = data;

  React.useEffect(() => {
    let isGone = false;
    void import('./plot').then(module => {
      if (!isGone && node.current) {
        plot.current = new module.Plot(
          node.current,
          newest.current,
          top,
          label
        );
      }
    });
    return () => {
      isGone = true;
      plot.current?.dispose();
      plot.current = null;
    };
  }, [top, label]);

  React.useEffect(() => plot.current?.update(data));

  return (
    <div
      ref={node}
      className="jp-VGPUChart-canvas"
      role="img"
      aria-label={summary}
    />
  );
}

function Key(
  props: React.PropsWithChildren<{
    colour: string;
    name: string;
    figure: string;
  }>
): React.JSX.Element {
  return (
    <li>
      <span className={`jp-VGPUSwatch jp-mod-${props.colour}`} />
      {props.name} <span data-figure={props.figure}>{props.children}</span>
    </li>
  );
}
