import { isReading } from '../wire';
import { emptyReading, okReading } from './readings';

describe('isReading', () => {
  it('lets figures in', () => {
    expect(isReading(okReading())).toBe(true);
  });

  it('lets a state without figures in', () => {
    expect(isReading(emptyReading('no-slice', 'Choose one.'))).toBe(true);
  });

  it('lets fields of a newer server in', () => {
    expect(isReading({ ...okReading(), busy: 0.5 })).toBe(true);
  });

  it.each([
    ['nothing', undefined],
    ['null', null],
    ['a text', 'ok'],
    ['an empty object', {}],
    ['figures that are said to be there and are not', emptyReading('ok')],
    ['figures where there should be none', { ...okReading(), state: 'x' }],
    ['a time that is no number', { ...okReading(), since_at: 'noon' }],
    ['a negative size', okReading({ memory_used_bytes: -1 })],
    ['a size that is not a number', okReading({ memory_limit_bytes: NaN })]
  ])('keeps %s out', (_, value) => {
    expect(isReading(value)).toBe(false);
  });
});
