// Events of the console's stream `/events`. crates/console/src/history.rs writes them.

/** Description of one metric of `spec/`. */
export interface Metric {
  /** Name as Prometheus sees it, such as `lineside_spv_hits_total`. */
  name: string;
  /** Name in the status, such as `hits`. */
  key: string;
  unit: string;
  kind: "counter" | "gauge";
  help: string;
  /** Service that has the metric; null for metrics of every service. */
  service: string | null;
}

/** Identity of one series of values. */
export interface SeriesName {
  service: string;
  /** Instance, if the service runs several times; for `fabric`, the channel. */
  instance: string | null;
  key: string;
  datapath: string | null;
  /** Value of the label that only this metric has, such as a drop reason or a validation code. */
  label: string | null;
}

/** Status of one service without its numbers, which are in the samples. */
export interface ServiceStatus {
  name: string;
  instance?: string | null;
  datapath: string;
  /** Protocols of a service without a fast path, such as `gRPC`. */
  protocols?: string[];
  listen: string;
  interface: string | null;
  mode: string | null;
  /** Interfaces at which XDP answers for the service; missing on the socket datapath. */
  interfaces?: { name: string; mode: string }[];
  lease_left_ms: number | null;
  /** Best block: its hash, its number, and the height of the chain as its protocol counts it. */
  tip: { hash: string; block?: number; height: number } | null;
  summary?: string[];
  [detail: string]: unknown;
}

export interface Status {
  version: string;
  uptime_s: number;
  services: ServiceStatus[];
  problems: string[];
  warnings: string[];
}

/** Values of all series at one moment. */
export interface Sample {
  /** Milliseconds since the console started. */
  at_ms: number;
  /** One value for each series, in the order of the series. Null or missing means that the series had no value. */
  values: (number | null)[];
}

/** First event of a stream: the whole history that the process keeps. */
export interface HistoryEvent {
  interval_ms: number;
  /** Number of samples that the process keeps. */
  capacity: number;
  metrics: Metric[];
  series: SeriesName[];
  samples: Sample[];
  /** Null if the process could not read its state at the last sample. */
  status: Status | null;
}

/** Event that the console sends each second: one sample. */
export interface SampleEvent extends Sample {
  /** Series that appear first in this sample. They are appended to the list of series. */
  added: SeriesName[];
  /** Null if the process could not read its state. */
  status: Status | null;
}
