// Events of the console's stream `/events`, as crates/console/src/history.rs writes them.

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
  /** Value of the metric's own label, such as a drop reason or a validation code. */
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
  tip: { hash: string; height: number } | null;
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
  /** One value for each series, in the order of the series; null or missing: the series had no value. */
  values: (number | null)[];
}

/** First event: everything that the process remembers. */
export interface HistoryEvent {
  interval_ms: number;
  /** Number of samples that the process keeps. */
  capacity: number;
  metrics: Metric[];
  series: SeriesName[];
  samples: Sample[];
  /** Null if the state could not be read lately. */
  status: Status | null;
}

/** Event of each second. */
export interface SampleEvent extends Sample {
  /** Series that this sample is the first to have; they are appended to the list of series. */
  added: SeriesName[];
  /** Null if the state could not be read. */
  status: Status | null;
}
