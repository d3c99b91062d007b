// Computes the content of the page for one moment as a pure function of the history. view.ts shows this content.

import { percent, seconds, withUnit } from "./format.js";
import {
  allValues,
  chartTable,
  figure,
  hitRatio,
  leaseFigure,
  leasePanel,
  occupancy,
  requestPanels,
  requests,
  timePanels,
  verdictPanel,
  verdictTable,
  type Figure,
  type Panel,
  type ServiceInput,
  type ServiceView,
  type Table,
} from "./parts.js";
import type { ServiceStatus } from "./protocol.js";
import { sum, type History, type Window } from "./series.js";
import { special } from "./services.js";

export interface PageView {
  version: string;
  uptime: string;
  problems: string[];
  warnings: string[];
  services: ServiceView[];
}

/** Returns the identity of a service's section: its name, and its instance if it runs several times. */
export function serviceId(status: ServiceStatus): string {
  const name = status.instance ? `${status.name}-${status.instance}` : status.name;
  return name.replaceAll(/[^A-Za-z0-9_-]/g, "_");
}

function where(status: ServiceStatus): string {
  const protocols = status.protocols ?? [];
  const way = protocols.length > 0 ? protocols.join(", ") : `${status.datapath} datapath`;
  const parts = [`listens on ${status.listen}`, way];
  if (status.interface) {
    const noun = (status.interfaces?.length ?? 1) > 1 ? "interfaces" : "interface";
    parts.push(`${noun} ${status.interface}${status.mode ? ` (${status.mode} XDP)` : ""}`);
  }
  return parts.join(" · ");
}

function isPresent<T>(value: T | null): value is T {
  return value !== null;
}

/** Returns the content of one service's section. */
export function serviceView(input: ServiceInput): ServiceView {
  const { status, series } = input;
  const own = special(input);
  const hasFastPath = series.has("lease_left");
  const figures: Figure[] = [];
  const panels: Panel[] = [];
  if (hasFastPath) {
    const { fastpath, host } = requests(input);
    const all = sum([fastpath, host], series.length).at(-1) ?? null;
    figures.push(
      figure("Requests", withUnit(all, "per_s")),
      figure("Hit ratio", percent(hitRatio(input))),
      ...[leaseFigure(input)].filter(isPresent),
    );
    panels.push(...requestPanels(input), ...[verdictPanel(input), leasePanel(input)].filter(isPresent));
  }
  // If a table holds all entries of its kind, its figure already has the service's count, so that count is not shown
  // again.
  const tablesUse = occupancy(input);
  const isTable = (one: Figure) => tablesUse.some((table) => table.label === one.label);
  figures.push(...tablesUse, ...own.figures.filter((one) => !isTable(one)));
  panels.push(...timePanels(input), ...own.panels);
  const tables: Table[] = [verdictTable(input), ...own.tables].filter(isPresent);
  tables.push(chartTable(panels), allValues(input));
  return {
    id: serviceId(status),
    title: status.instance ? `${status.name}: ${status.instance}` : status.name,
    purpose: own.purpose,
    where: where(status),
    figures,
    panels,
    tables: tables.filter((table) => table.rows.length > 0),
  };
}

/** Returns the content of the page for the samples of `window`. */
export function pageView(history: History, window: Window): PageView | null {
  const { status, metrics } = history;
  if (!status) return null;
  const services = status.services.map((service) =>
    serviceView({ status: service, series: window.of(service.name, service.instance ?? null), metrics }),
  );
  return {
    version: status.version,
    uptime: seconds(status.uptime_s),
    problems: status.problems,
    warnings: status.warnings,
    services,
  };
}
