// Parts of the page that differ from service to service.

import { bytes, NONE, seconds, short, shortHash, whole, words } from "./format.js";
import { figure, level, metricOf, panel, type Figure, type Panel, type ServiceInput, type Table } from "./parts.js";
import { ratio, sum, type Values } from "./series.js";

/** Parts that a service adds to the parts which all services have. */
export interface Special {
  purpose: string;
  figures: Figure[];
  panels: Panel[];
  tables: Table[];
}

type Json = Record<string, unknown>;

function object(value: unknown): Json {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Json) : {};
}

function list(value: unknown): Json[] {
  return Array.isArray(value) ? value.map(object) : [];
}

function text(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}

function number(value: unknown): number | null {
  return typeof value === "number" ? value : null;
}

function isPresent<T>(value: T | null): value is T {
  return value !== null;
}

/** Returns figures of whole numbers for those metrics of `keys` that the service has. */
function counts({ series }: ServiceInput, keys: [string, string][]): Figure[] {
  return keys.filter(([, key]) => series.has(key)).map(([label, key]) => figure(label, whole(series.now(key))));
}

/** Returns a line for each metric of `keys` that the service has: its value, or its increase per second. */
function lines({ series }: ServiceInput, keys: [string, string][], how: "value" | "rate") {
  return keys
    .filter(([, key]) => series.has(key))
    .map(([label, key]) => ({ label, values: how === "rate" ? series.total(key) : series.values(key) }));
}

function tip({ status }: ServiceInput): Figure[] {
  if (!status.tip) return [];
  const { hash, height } = status.tip;
  return [figure("Tip, height", whole(height)), { label: "Tip, hash", value: shortHash(hash), detail: hash }];
}

function spv(input: ServiceInput): Special {
  const { series, status } = input;
  const node = object(object(status["spv"])["node"]);
  const figures = tip(input);
  const behind = series.now("node_blocks_behind");
  const address = text(node["node"]);
  if (address !== null) {
    const away = number(node["away_s"]);
    const state = away === null ? "answers" : `no answer for ${seconds(away)}`;
    figures.push({ label: "Node", value: state, isBad: away !== null }, figure("Node address", address));
    figures.push(figure("Behind the node", behind === null ? NONE : `${whole(behind)} blocks`));
  } else {
    figures.push(figure("Node", "no node is followed"));
  }
  figures.push(
    ...counts(input, [
      ["Blocks", "blocks"],
      ["Transactions", "transactions"],
      ["Reorganisations", "reorganisations"],
      ["Electrum clients", "electrum_clients"],
      ["HTTP clients", "http_clients"],
    ]),
  );
  const height: [string, string][] = [
    ["chain store", "tip_height"],
    ["node", "node_height"],
  ];
  const table: [string, string][] = [
    ["fills", "fills"],
    ["invalidations", "invalidations"],
    ["conflicts", "conflicts"],
  ];
  const panels = [
    panel("table", "Changes of the fast-path table", "per_s", lines(input, table, "rate")),
    level("height", "Height of the best block", lines(input, height, "value")),
  ];
  if (series.has("node_blocks_behind")) {
    const lag = [{ label: "behind", values: series.values("node_blocks_behind") }];
    panels.push(panel("behind", "Blocks behind the node", "count", lag));
  }
  if (series.has("electrum_requests")) {
    const wallets = series.labels("electrum_requests").map((outcome) => ({
      label: words(outcome),
      values: series.rate("electrum_requests", null, outcome),
    }));
    panels.push(panel("electrum", "Electrum requests", "per_s", wallets));
  }
  return { purpose: "proofs of Bitcoin transactions", figures, panels, tables: [] };
}

function transfer(input: ServiceInput): Special {
  const { series } = input;
  const operations = series.rate("operations");
  const groups = series.rate("groups");
  const waiting = series.values("unjournaled_ops");
  const settled = series.now("settled_blocks");
  const figures = counts(input, [
    ["Accounts", "accounts"],
    ["Sessions", "sessions"],
    ["Sealed blocks", "blocks"],
  ]);
  if (settled !== null && settled > 0) figures.push(figure("Blocks in the settlement log", whole(settled)));
  figures.push(figure("Not yet in the journal", `${whole(waiting.at(-1))} operations`));
  figures.push(figure("Journal written", bytes(series.now("journal"))));
  const panels = [
    panel("operations", "Operations", "per_s", [
      { label: "done", values: operations },
      { label: "refused", values: series.rate("refused") },
    ]),
    panel("durability", "Durability lag: operations not yet in the journal", "count", [
      { label: "waiting", values: waiting },
    ]),
    panel("groups", "Journal batches (one fdatasync each)", "per_s", [{ label: "batches", values: groups }]),
    panel("batch", "Operations in a batch", "count", [{ label: "mean", values: ratio(operations, groups) }]),
  ];
  return { purpose: "a ledger of digital assets", figures, panels, tables: [] };
}

function column(input: ServiceInput): Special {
  const { series, status } = input;
  const figures = counts(input, [
    ["Ranges held", "blocks"],
    ["Rows held", "rows"],
    ["Sessions", "sessions"],
    ["Ranges not cached during a change", "marks"],
  ]);
  if (series.now("off") === 1) figures.push({ label: "Fast path", value: "switched off", isBad: true });
  if (series.now("strangers") === 1) {
    figures.push({ label: "Unconfigured server", value: "holds rows", isBad: true });
  }
  const leased = series.now("leased_servers");
  if (leased !== null) {
    const all = number(status["servers_expected"]);
    const value = all === null ? whole(leased) : `${whole(leased)} of ${whole(all)}`;
    figures.push({ label: "Leases of region servers", value, isBad: all !== null && leased < all });
  }
  const changes: [string, string][] = [
    ["fills", "fills"],
    ["invalidations", "invalidations"],
    ["evictions", "evictions"],
  ];
  const refused: [string, string][] = [
    ["late", "late_fills"],
    ["cold", "cold_fills"],
  ];
  const panels = [
    panel("held", "Ranges and rows held", "count", lines(input, [["rows", "rows"], ["ranges", "blocks"]], "value")),
    panel("table", "Changes of the fast-path table", "per_s", lines(input, changes, "rate")),
    panel("fills", "Fills that were discarded", "per_s", lines(input, refused, "rate")),
  ];
  if (series.has("notices")) {
    const notices: [string, string][] = [["accepted", "notices"], ["refused", "refused_notices"]];
    panels.push(panel("notices", "Notifications of region servers", "per_s", lines(input, notices, "rate")));
    const leases: [string, string][] = [["leases", "leased_servers"]];
    panels.push(panel("servers", "Leases of region servers", "count", lines(input, leases, "value")));
  }
  return { purpose: "rows and ranges of a wide table", figures, panels, tables: [] };
}

/** Returns a table of a metric by its own label, with a total and a rate for each label value that is not 0. */
function codes(input: ServiceInput, key: string, caption: string, head: string): Table | null {
  const { series } = input;
  const rows = series
    .labels(key)
    .map((code) => ({ code, total: series.now(key, null, code) }))
    .filter(({ total }) => total !== null && total > 0)
    .map(({ code, total }) => [code, short(series.rate(key, null, code).at(-1)), whole(total)]);
  return { id: key, caption, head: [head, "#Per second", "#Total"], rows };
}

/** Splits a metric into the series with the label value `one` and the sum of all other series. */
function oneAndOthers({ series }: ServiceInput, key: string, one: string): { one: Values; others: Values } {
  const rates = (labels: string[]) => labels.map((label) => series.rate(key, null, label));
  const labels = series.labels(key);
  return {
    one: sum(rates(labels.filter((label) => label === one)), series.length),
    others: sum(rates(labels.filter((label) => label !== one)), series.length),
  };
}

function fabric(input: ServiceInput): Special {
  const { series, status } = input;
  const about = object(status["fabric"]);
  const figures = [figure("Height", whole(series.now("height")))];
  figures.push(...tip(input).slice(1));
  const stopped = text(about["stopped"]);
  const left = text(about["left"]);
  const source = about["following"] === true ? "sends blocks" : "none";
  if (stopped !== null) figures.push({ label: "Stopped", value: stopped, isBad: true });
  figures.push({
    label: "Source",
    value: source,
    isBad: source === "none" && left !== null,
    ...(left === null ? {} : { detail: left }),
  });
  const age_ms = number(about["block_age_ms"]);
  figures.push(figure("Last block came", age_ms === null ? NONE : `${seconds(age_ms / 1000)} ago`));
  figures.push(...counts(input, [["Sources left", "sources_left"]]));
  const { one: valid, others: invalid } = oneAndOthers(input, "transactions", "VALID");
  const blocks = series.rate("blocks");
  const stage = (name: string) => ratio(series.rate("stage", null, name), blocks);
  const panels = [
    panel("transactions", "Transactions committed", "per_s", [
      { label: "valid", values: valid },
      { label: "other codes", values: invalid },
    ]),
    panel("blocks", "Blocks committed", "per_s", [{ label: "blocks", values: blocks }]),
    panel("stages", "Mean time of a block", "seconds", [
      { label: "verify", values: stage("verify") },
      { label: "ledger", values: stage("ledger") },
    ]),
    level("chain", "Height", [{ label: "blocks", values: series.values("height") }]),
  ];
  const recent = list(about["blocks"]).map((block) => {
    const total = number(object(block["stages_ns"])["total"]);
    const time = total === null ? NONE : seconds(total / 1e9);
    const hash = text(block["commit_hash"]);
    return [
      whole(number(block["number"])),
      whole(number(block["transactions"])),
      whole(number(block["valid"])),
      time,
      hash === null ? NONE : shortHash(hash),
    ];
  });
  const stages = series.labels("stage").map((name) => {
    const total = series.now("stage", null, name);
    const committed = series.now("blocks");
    const mean = total !== null && committed !== null && committed > 0 ? total / committed : null;
    return [name, seconds(stage(name).at(-1)), seconds(mean)];
  });
  const tables = [
    codes(input, "transactions", "Transactions by validation code", "Code"),
    { id: "stages", caption: "Time of the stages of a block", head: ["Stage", "#Last second", "#Mean"], rows: stages },
    {
      id: "recent",
      caption: "Last blocks",
      head: ["#Block", "#Transactions", "#Valid", "#Time until durable", "Commit hash"],
      rows: recent,
    },
  ];
  return { purpose: "a committing replica of a Fabric channel", figures, panels, tables: tables.filter(isPresent) };
}

function hybrid(input: ServiceInput): Special {
  const { series, status } = input;
  const connections = object(status["connections"]);
  const membership = object(status["membership"]);
  const figures = [figure("Height", whole(series.now("height")))];
  figures.push(...tip(input).slice(1), ...counts(input, [["Keys", "keys"]]));
  const counted = [["Members", "members"], ["Nodes", "nodes"], ["Votes that a change needs", "quorum"]] as const;
  for (const [label, key] of counted) {
    const value = number(membership[key]);
    if (value !== null) figures.push(figure(label, whole(value)));
  }
  figures.push(figure("gRPC connections", whole(number(connections["open"]))));
  if (series.now("read_only") === 1) figures.push({ label: "Writes", value: "refused", isBad: true });
  const { one: done, others } = oneAndOthers(input, "requests", "done");
  const batches = series.rate("batches");
  const verified = series.rate("verified");
  const panels = [
    panel("answers", "Requests answered", "per_s", [
      { label: "done", values: done },
      { label: "other codes", values: others },
    ]),
    level("chain", "Height", [{ label: "blocks", values: series.values("height") }]),
    panel("signatures", "Signatures verified", "per_s", [{ label: "signatures", values: verified }]),
    panel("batch", "Signatures in a batch", "count", [{ label: "mean", values: ratio(verified, batches) }]),
  ];
  const tables = [codes(input, "requests", "Requests by code", "Code")];
  return { purpose: "a ledger database", figures, panels, tables: tables.filter(isPresent) };
}

/** Returns charts for a service that this page does not know. Names and units come from the metrics of `spec/`. */
function other(input: ServiceInput): Special {
  const { series } = input;
  const common = new Set(input.metrics.filter((metric) => metric.service === null).map((metric) => metric.key));
  const names = series.names().filter((name) => name.datapath === null && !common.has(name.key));
  const keys = [...new Set(names.map((name) => name.key))];
  const panels = keys.map((key) => {
    const metric = metricOf(input, key);
    const labels = series.labels(key);
    const isCounter = metric?.kind === "counter";
    const of = (label: string | null) => (isCounter ? series.rate(key, null, label) : series.values(key, null, label));
    const all = labels.length > 0 ? labels.map((label) => ({ label, values: of(label) })) : [];
    const plain = all.length > 0 ? all.slice(0, 3) : [{ label: words(key), values: of(null) }];
    const unit = metric?.unit === "bytes" ? (isCounter ? "bytes_per_s" : "bytes") : isCounter ? "per_s" : "count";
    const gauge = metric?.unit === "seconds" && !isCounter ? "seconds" : unit;
    const title = words(key);
    return panel(`metric-${key}`, title.charAt(0).toUpperCase() + title.slice(1), gauge, plain);
  });
  return { purpose: "", figures: tip(input), panels, tables: [] };
}

const SERVICES: Record<string, (input: ServiceInput) => Special> = { spv, transfer, column, fabric, hybrid };

/** Returns the parts of the page that only this service has. */
export function special(input: ServiceInput): Special {
  return (SERVICES[input.status.name] ?? other)(input);
}
