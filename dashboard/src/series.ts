// Computes rates of counters, sums and ratios from samples. The functions are pure; test/series.test.ts tests them.

import type { HistoryEvent, Metric, Sample, SampleEvent, SeriesName, Status } from "./protocol.js";

/** One value for each sample; null if the sample has no value. */
export type Values = (number | null)[];

/**
 * Returns the increase of a counter per second. The first value is null. If a counter is smaller than before, it was
 * reset to 0, so its value is the increase. Samples before and after a gap have no rate.
 */
export function rates(counter: Values, at_ms: number[]): Values {
  return counter.map((value, i) => {
    const before = i > 0 ? counter[i - 1] : null;
    const seconds = ((at_ms[i] ?? 0) - (at_ms[i - 1] ?? 0)) / 1000;
    if (value === null || before === null || before === undefined || seconds <= 0) return null;
    return (value < before ? value : value - before) / seconds;
  });
}

/** Returns the sums of several series. A missing value counts as 0, unless all are missing. */
export function sum(series: Values[], length: number): Values {
  return Array.from({ length }, (_, i) => {
    const present = series.map((values) => values[i]).filter((value) => typeof value === "number");
    return present.length === 0 ? null : present.reduce((all, value) => all + value, 0);
  });
}

/** Returns `factor * part / whole` for each sample; null if the whole is 0 or missing. */
export function ratio(part: Values, whole: Values, factor = 1): Values {
  return whole.map((all, i) => (all === null || all <= 0 ? null : (factor * (part[i] ?? 0)) / all));
}

export interface Summary {
  now: number | null;
  lowest: number | null;
  highest: number | null;
  mean: number | null;
}

/** Returns a summary of values. `now` is the last value, even if it is missing. */
export function summary(values: Values): Summary {
  const present = values.filter((value) => value !== null);
  if (present.length === 0) return { now: null, lowest: null, highest: null, mean: null };
  return {
    now: values[values.length - 1] ?? null,
    lowest: Math.min(...present),
    highest: Math.max(...present),
    mean: present.reduce((all, value) => all + value, 0) / present.length,
  };
}

/** History of the process, as far as the page has received it. */
export class History {
  readonly metrics: Metric[];
  readonly interval_ms: number;
  readonly capacity: number;
  readonly series: SeriesName[];
  status: Status | null;
  private samples: Sample[];

  constructor(event: HistoryEvent) {
    this.metrics = event.metrics;
    this.interval_ms = event.interval_ms;
    this.capacity = event.capacity;
    this.series = [...event.series];
    this.samples = event.samples.slice(-event.capacity);
    this.status = event.status;
  }

  /** Appends a sample, and removes the oldest sample if there are more than the maximum. */
  add(event: SampleEvent): void {
    this.series.push(...event.added);
    this.samples.push({ at_ms: event.at_ms, values: event.values });
    if (this.samples.length > this.capacity) this.samples.shift();
    // While the state cannot be read, the page keeps the last known texts.
    this.status = event.status ?? this.status;
  }

  /** Returns the samples of the last `seconds` seconds. */
  window(seconds: number): Window {
    const newest = this.samples[this.samples.length - 1]?.at_ms ?? 0;
    const first = newest - seconds * 1000;
    return new Window(this, this.samples.filter((sample) => sample.at_ms >= first));
  }
}

/** Part of a history: the samples of a time window. */
export class Window {
  readonly at_ms: number[];

  constructor(
    readonly history: History,
    private readonly samples: Sample[],
  ) {
    this.at_ms = samples.map((sample) => sample.at_ms);
  }

  get length(): number {
    return this.samples.length;
  }

  /** Returns the values of the series with the index `place`. */
  values(place: number): Values {
    return this.samples.map((sample) => sample.values[place] ?? null);
  }

  /** Returns all series of one service. */
  of(service: string, instance: string | null): ServiceSeries {
    const places = this.history.series.flatMap((name, place) =>
      name.service === service && name.instance === instance ? [place] : [],
    );
    return new ServiceSeries(this, places);
  }
}

/** Series of one service. */
export class ServiceSeries {
  constructor(
    readonly window: Window,
    private readonly places: number[],
  ) {}

  get length(): number {
    return this.window.length;
  }

  /** Returns index and name of each series for which `accepts` returns true. */
  private find(accepts: (name: SeriesName) => boolean): { place: number; name: SeriesName }[] {
    return this.places.flatMap((place) => {
      const name = this.window.history.series[place];
      return name && accepts(name) ? [{ place, name }] : [];
    });
  }

  /** Returns the names of all series. */
  names(): SeriesName[] {
    return this.find(() => true).map(({ name }) => name);
  }

  has(key: string): boolean {
    return this.find((name) => name.key === key).length > 0;
  }

  /** Returns the values of a series. All are null if the service has no such series. */
  values(key: string, datapath: string | null = null, label: string | null = null): Values {
    const [found] = this.find(
      (name) => name.key === key && name.datapath === datapath && name.label === label,
    );
    return found ? this.window.values(found.place) : Array<null>(this.length).fill(null);
  }

  /** Returns the increase per second of a series. */
  rate(key: string, datapath: string | null = null, label: string | null = null): Values {
    return rates(this.values(key, datapath, label), this.window.at_ms);
  }

  /** Returns the increase per second of a metric, summed over all its series. */
  total(key: string): Values {
    const found = this.find((name) => name.key === key);
    const all = found.map(({ place }) => rates(this.window.values(place), this.window.at_ms));
    return sum(all, this.length);
  }

  /** Returns the values of the label that only this metric has, in the order of their appearance. */
  labels(key: string): string[] {
    const found = this.find((name) => name.key === key && name.label !== null);
    return [...new Set(found.map(({ name }) => name.label ?? ""))];
  }

  /** Returns the datapaths that have counters, in the order of their appearance. */
  datapaths(): string[] {
    const found = this.find((name) => name.datapath !== null);
    return [...new Set(found.map(({ name }) => name.datapath ?? ""))];
  }

  /** Returns the last value of a series. */
  now(key: string, datapath: string | null = null, label: string | null = null): number | null {
    return this.values(key, datapath, label).at(-1) ?? null;
  }
}
