// Parts of the page that every service has: requests, hit ratio, verdicts, lease, and the table of all values.

import { NONE, percent, seconds, short, whole, withUnit, words, type Unit } from "./format.js";
import type { Metric, SeriesName, ServiceStatus } from "./protocol.js";
import { rates, ratio, sum, type ServiceSeries, type Values } from "./series.js";

/** One line of a chart. The first line of a panel is drawn in the accent colour. */
export interface Line {
  label: string;
  values: Values;
}

/** One small chart. */
export interface Panel {
  id: string;
  title: string;
  unit: Unit;
  lines: Line[];
  /** Upper end of the value axis, if it is fixed. */
  max?: number;
  /** True for a level such as the height of a chain, whose axis does not begin at 0. */
  isLevel?: boolean;
}

/** One figure with its label. */
export interface Figure {
  label: string;
  value: string;
  /** Longer text, such as a complete hash. */
  detail?: string;
  isBad?: boolean;
}

export interface Table {
  id: string;
  caption: string;
  /** Headings of the columns. The heading of a column of numbers begins with `#`, which the page does not show. */
  head: string[];
  rows: string[][];
  /** True if the page shows the table only when the user opens it. */
  isFolded?: boolean;
}

export interface ServiceView {
  id: string;
  title: string;
  purpose: string;
  where: string;
  figures: Figure[];
  panels: Panel[];
  tables: Table[];
}

/** A service and everything that is known about it. */
export interface ServiceInput {
  status: ServiceStatus;
  series: ServiceSeries;
  metrics: Metric[];
}

type Verdict = "Reply" | "Forward" | "Drop";

/**
 * Verdicts that the counters of a fast path count, by counter. Other counters count parts of these, or are no
 * verdicts.
 */
const VERDICTS: Record<string, Verdict> = {
  hits: "Reply",
  replies: "Reply",
  busy: "Reply",
  misses: "Forward",
  invalid: "Forward",
  changing: "Forward",
  not_leased: "Forward",
  forwarded: "Forward",
  forwarded_native: "Forward",
};

/** Counters of requests that another counter also counts, with the name of the other counter. */
const PARTS: Record<string, string> = {
  refusals: "Included in Reply",
  repeats: "Included in Reply",
  ring_full: "Included in Reply busy",
};

/** Keys that are shown at other places of the page, or that do not count requests. */
const FASTPATH_REPLIES = "fastpath_replies";
const HOST_REPLIES = "host_replies";
const DROPS = "drops";
const LEASE = "lease_left";

/** Returns the description of a metric by its key, if `spec/` has it. */
export function metricOf(input: ServiceInput, key: string): Metric | undefined {
  const named = input.metrics.filter((metric) => metric.key === key);
  return (
    named.find((metric) => metric.service === input.status.name) ??
    named.find((metric) => metric.service === null)
  );
}

export function panel(id: string, title: string, unit: Unit, lines: Line[], max?: number): Panel {
  return max === undefined ? { id, title, unit, lines } : { id, title, unit, lines, max };
}

/** Returns a panel whose axis does not begin at 0. */
export function level(id: string, title: string, lines: Line[]): Panel {
  return { id, title, unit: "whole", lines, isLevel: true };
}

export function figure(label: string, value: string): Figure {
  return { label, value };
}

/** Returns the numbers of requests per second: those that the fast path answered, and those that the host answered. */
export function requests({ series }: ServiceInput): { fastpath: Values; host: Values } {
  return { fastpath: series.total(FASTPATH_REPLIES), host: series.rate(HOST_REPLIES) };
}

/** Returns the panels for the request rate and the hit ratio. */
export function requestPanels(input: ServiceInput): Panel[] {
  const { fastpath, host } = requests(input);
  const lines = [
    { label: "fast path", values: fastpath },
    { label: "host", values: host },
  ];
  const full = input.series.rate("queue_full");
  if (full.some((value) => value !== null && value > 0)) lines.push({ label: "queue full", values: full });
  const all = sum([fastpath, host], input.series.length);
  const hits = ratio(fastpath, all, 100);
  return [
    panel("requests", "Requests answered", "per_s", lines),
    panel("hit-ratio", "Hit ratio of the fast path", "percent", [{ label: "hits", values: hits }], 100),
  ];
}

/** Returns the panels for histograms of times: the median and the 99th percentile of the values in each second. */
export function timePanels({ series }: ServiceInput): Panel[] {
  const histograms: [string, string][] = [
    ["host_latency", "Latency of the host"],
    ["fdatasync", "Time of an fdatasync"],
    ["commit", "Time until a block is committed"],
  ];
  return histograms
    .filter(([key]) => series.has(key))
    .map(([key, title]) => {
      const values = (label: string) => ({ label, values: series.values(key, null, label) });
      return panel(key, title, "seconds", [values("p99"), values("p50")]);
    });
}

/** Returns the hit ratio over the whole window in percent, or null if there were no requests. */
export function hitRatio(input: ServiceInput): number | null {
  const { fastpath, host } = requests(input);
  const total = (values: Values) => values.reduce<number>((all, value) => all + (value ?? 0), 0);
  const all = total(fastpath) + total(host);
  return all > 0 ? (100 * total(fastpath)) / all : null;
}

/** Returns the chart of verdicts of the datapath in use, if the service has a fast path. */
export function verdictPanel({ status, series }: ServiceInput): Panel | null {
  const datapath = status.datapath;
  const keys = series.names().filter((name) => name.datapath === datapath && name.label === null);
  const of = (verdict: Verdict) =>
    keys.filter((name) => VERDICTS[name.key] === verdict).map((name) => series.rate(name.key, datapath));
  const replies = of("Reply");
  const forwards = of("Forward");
  if (replies.length === 0 && forwards.length === 0) return null;
  const drops = series.labels(DROPS).map((reason) => series.rate(DROPS, datapath, reason));
  return panel("verdicts", `Verdicts on ${datapath}`, "per_s", [
    { label: "reply", values: sum(replies, series.length) },
    { label: "forward", values: sum(forwards, series.length) },
    { label: "drop", values: sum(drops, series.length) },
  ]);
}

/** Returns the table of verdicts by reason, with a rate and a total for each datapath. */
export function verdictTable(input: ServiceInput): Table | null {
  const { series } = input;
  const datapaths = series.datapaths();
  const keys = [...new Set(series.names().flatMap((name) => (name.datapath && !name.label ? [name.key] : [])))];
  const cells = (key: string, label: string | null) =>
    datapaths.flatMap((datapath) => [
      short(series.rate(key, datapath, label).at(-1)),
      whole(series.now(key, datapath, label)),
    ]);
  const rows: string[][] = [];
  for (const verdict of ["Reply", "Forward"] as const) {
    for (const key of keys.filter((key) => VERDICTS[key] === verdict)) {
      rows.push([verdict, words(key), ...cells(key, null), metricOf(input, key)?.help ?? ""]);
    }
  }
  for (const key of keys.filter((key) => PARTS[key])) {
    rows.push([PARTS[key] ?? "", words(key), ...cells(key, null), metricOf(input, key)?.help ?? ""]);
  }
  const known = (key: string) => VERDICTS[key] || PARTS[key] || key === FASTPATH_REPLIES;
  for (const key of keys.filter((key) => !known(key))) {
    rows.push(["Other", words(key), ...cells(key, null), metricOf(input, key)?.help ?? ""]);
  }
  if (rows.length === 0) return null;
  for (const reason of series.labels(DROPS).filter((reason) => hasDropped(series, datapaths, reason))) {
    rows.push(["Drop", words(reason), ...cells(DROPS, reason), ""]);
  }
  const head = datapaths.flatMap((datapath) => [`#${datapath}, per s`, `#${datapath}, total`]);
  return {
    id: "verdicts",
    caption: "Verdicts of the fast path by reason",
    head: ["Verdict", "Reason", ...head, "Meaning"],
    rows,
  };
}

/** Returns true if any datapath has dropped a packet for this reason. */
function hasDropped(series: ServiceSeries, datapaths: string[], reason: string): boolean {
  return datapaths.some((datapath) => (series.now(DROPS, datapath, reason) ?? 0) > 0);
}

/** Returns the chart of the time until the lease ends, if the service has a lease. */
export function leasePanel({ series }: ServiceInput): Panel | null {
  if (!series.has(LEASE)) return null;
  return panel("lease", "Lease of the fast path, time left", "seconds", [
    { label: "left", values: series.values(LEASE) },
  ]);
}

/** Returns the figure of the lease, if the service has one. */
export function leaseFigure({ status }: ServiceInput): Figure | null {
  const left_ms = status.lease_left_ms;
  if (left_ms === null || left_ms === undefined) return null;
  if (left_ms === 0) return { label: "Lease", value: "ended", isBad: true };
  return figure("Lease left", seconds(left_ms / 1000));
}

/** Returns how full the service's tables are, from the metrics of used entries and of maximum entries. */
export function occupancy({ series, status }: ServiceInput): Figure[] {
  const tables = series.names().filter((name) => name.key === "table_entries" && name.label !== null);
  return tables.flatMap(({ label }) => {
    const used = series.values("table_entries", null, label).at(-1) ?? null;
    const capacity = series.values("table_capacity", null, label).at(-1) ?? null;
    if (label === null || used === null || capacity === null) return [];
    const share = capacity > 0 ? (100 * used) / capacity : 0;
    const exact = `${whole(used)} of ${whole(capacity)}`;
    const text = `${short(used)} of ${short(capacity)} (${percent(share)})`;
    return [{ label: tableTitle(status.name, label), value: text, detail: exact, isBad: share >= 90 }];
  });
}

/** Titles of tables that contain all entries of their kind which the service has. */
const WHOLE_TABLES: Record<string, Record<string, string>> = {
  transfer: {
    accounts: "Accounts",
    sessions: "Sessions",
    pending_transfers: "Pending transfers",
    idempotency_keys: "Idempotency keys",
  },
  column: { blocks: "Ranges held" },
};

/** Returns the title of a table, such as `Fast path: tree nodes` for `tree_nodes` of `spv`. */
function tableTitle(service: string, label: string): string {
  return WHOLE_TABLES[service]?.[label] ?? `Fast path: ${words(label)}`;
}

/** Returns the value of a series in the unit that `spec/` gives it. */
export function metricValue(metric: Metric | undefined, value: number | null): string {
  if (metric?.unit === "seconds") return seconds(value);
  if (metric?.unit === "bytes") return withUnit(value, "bytes");
  return whole(value);
}

/** Returns a table of all values of a service, with their names and descriptions from `spec/`. */
export function allValues(input: ServiceInput): Table {
  const { series } = input;
  const rows = series.names().map((name: SeriesName) => {
    const { key, datapath, label } = name;
    const metric = metricOf(input, key);
    const values = series.values(key, datapath, label);
    const rate = rates(values, series.window.at_ms).at(-1) ?? null;
    const labels = [datapath, label].filter((part) => part !== null).join(", ");
    const isCounter = metric?.kind === "counter";
    const title = metric?.name ?? key;
    return [
      labels === "" ? title : `${title} (${labels})`,
      metricValue(metric, values.at(-1) ?? null),
      isCounter ? short(rate) : NONE,
      metric?.help ?? "",
    ];
  });
  return {
    id: "all",
    caption: "All values",
    head: ["Metric", "#Value", "#Per second", "Meaning"],
    rows,
    isFolded: true,
  };
}

/** Returns the charts of a list of panels as a table, which is their text alternative. */
export function chartTable(panels: Panel[]): Table {
  const rows = panels.flatMap((one) =>
    one.lines.map(({ label, values }) => {
      const present = values.filter((value) => value !== null);
      const mean = present.length > 0 ? present.reduce((all, value) => all + value, 0) / present.length : null;
      const text = (value: number | null) => withUnit(value, one.unit);
      const lowest = present.length > 0 ? Math.min(...present) : null;
      const highest = present.length > 0 ? Math.max(...present) : null;
      return [one.title, label, text(values.at(-1) ?? null), text(mean), text(lowest), text(highest)];
    }),
  );
  return {
    id: "charts",
    caption: "The charts as numbers",
    head: ["Chart", "Line", "#Now", "#Mean", "#Lowest", "#Highest"],
    rows,
    isFolded: true,
  };
}
