import { nullTranslator } from '@jupyterlab/translation';

import * as words from '../words';
import { ISituation } from '../tokens';
import { IDeviceUsage } from '../wire';
import { emptyReading, okReading } from './readings';

const trans = nullTranslator.load('jupyter_vgpu');
const GIB = 2 ** 30;

function device(figures: Partial<IDeviceUsage>): IDeviceUsage {
  return okReading(figures).usage!.devices[0];
}

function situation(state: string, since: Date | null): ISituation {
  return { ...emptyReading(state), since };
}

describe('bytes', () => {
  it.each([
    [0, '0 B'],
    [1023, '1023 B'],
    [1024, '1.0 KiB'],
    [1.5 * GIB, '1.5 GiB'],
    [2048 * GIB, '2.0 TiB']
  ])('writes %d as %s', (count, text) => {
    expect(words.bytes(count)).toBe(text);
  });
});

describe('fullness', () => {
  it('is the part of the limit that is used', () => {
    expect(words.fullness(device({ memory_used_bytes: 5 * GIB }))).toBe(0.25);
  });

  it('never passes the whole', () => {
    expect(words.fullness(device({ memory_used_bytes: 21 * GIB }))).toBe(1);
  });

  it('takes a limit of nothing for full', () => {
    expect(words.fullness(device({ memory_limit_bytes: 0 }))).toBe(1);
  });
});

describe('warning', () => {
  it('says nothing while there is room', () => {
    expect(words.warning(device({ memory_used_bytes: 17 * GIB }), trans)).toBe(
      ''
    );
  });

  it('says how much is left when it gets tight', () => {
    expect(
      words.warning(device({ memory_used_bytes: 19 * GIB }), trans)
    ).toContain('1.0 GiB left');
  });
});

describe('heading', () => {
  it('says since when the agent is not reachable', () => {
    const since = new Date(2026, 0, 1, 12, 3);

    const text = words.heading(situation('agent-unreachable', since), trans);

    expect(text).toMatch(/^Agent not reachable, since 12:03/);
  });

  it('names a state that it does not know', () => {
    expect(words.heading(situation('on-fire', null), trans)).toContain(
      'on-fire'
    );
  });
});

describe('enforcement', () => {
  const by = okReading().usage!.enforced_by;

  it('never calls verified what is not', () => {
    expect(words.verification({ ...by, verified: false }, trans)).toBe(
      'not yet'
    );
  });

  it('says so when nothing is isolated, also without a note', () => {
    expect(words.caveat({ ...by, note: '' }, trans)).toBe('not isolated');
  });
});
