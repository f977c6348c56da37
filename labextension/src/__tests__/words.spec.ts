import { nullTranslator } from '@jupyterlab/translation';

import * as words from '../words';
import { ISituation } from '../tokens';
import { IDeviceUsage } from '../wire';
import { emptyReading, notebook, okReading } from './readings';

const trans = nullTranslator.load('jupyter_vgpu');
const GIB = 2 ** 30;

function device(figures: Partial<IDeviceUsage>): IDeviceUsage {
  return okReading(figures).usage!.devices[0];
}

function situation(state: string, since: Date | null): ISituation {
  return { ...emptyReading(state), since, events: [], session: {} };
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
  const tight = device({ memory_used_bytes: 19 * GIB });

  it('says nothing while there is room', () => {
    const roomy = device({ memory_used_bytes: 17 * GIB });

    expect(words.warning(roomy, [], 90, trans)).toBe('');
  });

  it('begins where the user wants it to', () => {
    const roomy = device({ memory_used_bytes: 17 * GIB });

    expect(words.warning(roomy, [], 80, trans)).toContain('3.0 GiB left');
  });

  it('says how much is left when it gets tight', () => {
    expect(words.warning(tight, [], 90, trans)).toContain('1.0 GiB left');
  });

  it('names the notebook that holds most, and what to do', () => {
    const small = notebook({
      path: 'small.ipynb',
      devices: [{ uuid: 'GPU-1', memory_bytes: 1, launches: 0 }]
    });

    const text = words.warning(tight, [small, notebook()], 90, trans);

    expect(text).toContain('one.ipynb holds most: run `%vgpu free` there');
  });
});

describe('short', () => {
  it.each([
    [5 * GIB, 20 * GIB, undefined, '5.0/20.0 GiB'],
    [GIB / 2, 20 * GIB, 0.126, '0.5/20.0 GiB 13 %'],
    [GIB / 4, GIB / 2, 0, '256.0/512.0 MiB 0 %']
  ])('writes %d of %d, at %d, as %s', (used, limit, gpu, text) => {
    const figures = {
      memory_used_bytes: used,
      memory_limit_bytes: limit,
      gpu_time_fraction: gpu
    };

    expect(words.short(device(figures))).toBe(text);
  });
});

describe('hours', () => {
  it.each([
    [20, '20'],
    [2.54, '2.5'],
    [0.0123, '0.012'],
    [0, '0']
  ])('writes %d as %s', (value, text) => {
    expect(words.hours(value)).toBe(text);
  });
});

describe('sentence', () => {
  it.each([
    ['', ''],
    ['no agent answers', 'No agent answers.'],
    ['Ask the admin.', 'Ask the admin.'],
    ['start it with `jupyter lab`', 'Start it with `jupyter lab`.']
  ])('makes of %j', (text, expected) => {
    expect(words.sentence(text)).toBe(expected);
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
    expect(
      words.verification({ ...by, verified: false }, by.verified_at!, trans)
    ).toBe('not yet');
  });

  it.each([
    [0, '0 s ago'],
    [1.4, '1 s ago'],
    [-3, '0 s ago'],
    [200, '3 min ago'],
    [7300, '2 h ago']
  ])('says that %d s ago is %s', (seconds, text) => {
    const now = by.verified_at! + seconds;

    expect(words.verification(by, now, trans)).toBe(text);
  });

  it('says so when nothing is isolated, also without a note', () => {
    expect(words.caveat({ ...by, note: '' }, trans)).toBe('Not isolated.');
  });

  it('says what limits the trust as a sentence, and nothing where nothing does', () => {
    const noted = { ...by, note: 'demo, not isolated: a; b' };
    const isolated = { ...by, note: '', isolated: true };

    expect(words.caveat(noted, trans)).toBe('Demo, not isolated: a; b.');
    expect(words.caveat(isolated, trans)).toBe('');
  });
});

describe('rate', () => {
  it.each([
    [0, '0'],
    [12.34, '12.3'],
    [870.1, '870'],
    [1234.5, '1,235']
  ])('writes %d as %s', (value, text) => {
    expect(words.rate(value)).toBe(text);
  });
});

describe('bytesShort', () => {
  it.each([
    [0, '0 B'],
    [1023, '1023 B'],
    [9.9 * 2 ** 30, '9.9 G'],
    [19.8 * 2 ** 30, '19.8 G'],
    [140 * 2 ** 30, '140 G']
  ])('writes %d as %s', (count, text) => {
    expect(words.bytesShort(count)).toBe(text);
  });
});

describe('span', () => {
  it.each([
    [1, '1 min'],
    [61, '2 min'],
    [3600, '1 h 00 min'],
    [7500, '2 h 05 min']
  ])('says %d s as %s', (seconds, text) => {
    expect(words.span(seconds, trans)).toBe(text);
  });
});

describe('guaranteed', () => {
  it.each([
    [0.25, 0, false, '25 %, never missed'],
    [0.125, 2, false, '12.5 %, missed in 2 s'],
    [1 / 3, 1234, true, '33.3 %, missed in 1,234 s, and now']
  ])(
    'says %d with %d violations as figures',
    (least, violations, raised, text) => {
      const kept = { least, violations, raised };

      expect(words.guaranteed(kept, trans)).toBe(text);
    }
  );
});

describe('pressure', () => {
  it.each([
    [0, 0, 'none at work'],
    [2, 0.6, '2 at work, 60 %']
  ])('says %d neighbours as figures', (neighbours, fraction, text) => {
    const by = { neighbours, gpu_time_fraction: fraction };

    expect(words.pressure(by, trans)).toBe(text);
  });
});
