import assert from "node:assert/strict";
import { test } from "node:test";
import { pageView } from "../src/model.js";
import type { ServiceView } from "../src/parts.js";
import type { Metric, SeriesName, ServiceStatus } from "../src/protocol.js";
import { History } from "../src/series.js";

type Values = Record<string, [number, number]>;

/**
 * Returns the view of one service for two samples of its numbers. The keys have the form `key`, `key@datapath` or
 * `key=label`.
 */
function view(status: Partial<ServiceStatus>, values: Values, metrics: Metric[] = []): ServiceView {
  const service: ServiceStatus = {
    name: "spv",
    datapath: "socket",
    listen: "127.0.0.1:7701",
    interface: null,
    mode: null,
    lease_left_ms: null,
    tip: null,
    ...status,
  };
  const series = Object.keys(values).map((text): SeriesName => {
    const [, key = "", datapath = null, label = null] = /^([^@=]*)(?:@([^=]*))?(?:=(.*))?$/.exec(text) ?? [];
    return { service: service.name, instance: service.instance ?? null, key, datapath, label };
  });
  const sample = (i: 0 | 1) => ({ at_ms: i * 1000, values: Object.values(values).map((both) => both[i]) });
  const history = new History({
    interval_ms: 1000,
    capacity: 301,
    metrics,
    series,
    samples: [sample(0), sample(1)],
    status: { version: "1", uptime_s: 3, services: [service], problems: [], warnings: [] },
  });
  const [only] = pageView(history, history.window(300))?.services ?? [];
  assert.ok(only);
  return only;
}

function figure(of: ServiceView, label: string): string | undefined {
  return of.figures.find((one) => one.label === label)?.value;
}

function lastOf(of: ServiceView, panel: string, label: string): number | null | undefined {
  return of.panels
    .find((one) => one.id === panel)
    ?.lines.find((line) => line.label === label)
    ?.values.at(-1);
}

test("spv: a request that passes both datapaths counts once", () => {
  const spv = view(
    { datapath: "xdp", lease_left_ms: 58_250 },
    {
      lease_left: [59, 58.25],
      "fastpath_replies@xdp": [100, 190],
      "fastpath_replies@socket": [0, 0],
      host_replies: [50, 60],
      "hits@xdp": [100, 190],
      "misses@xdp": [50, 60],
      "misses@socket": [50, 60],
      "drops@xdp=source_port": [1, 3],
      "drops@xdp=reply_bit": [0, 0],
    },
  );
  assert.equal(figure(spv, "Requests"), "100/s");
  assert.equal(figure(spv, "Hit ratio"), "90 %");
  assert.equal(figure(spv, "Lease left"), "58.3 s");
  assert.equal(lastOf(spv, "verdicts", "reply"), 90);
  assert.equal(lastOf(spv, "verdicts", "forward"), 10);
  assert.equal(lastOf(spv, "verdicts", "drop"), 2);
  const verdicts = spv.tables.find((table) => table.id === "verdicts");
  assert.deepEqual(verdicts?.head.slice(2, 6), ["#xdp, per s", "#xdp, total", "#socket, per s", "#socket, total"]);
  assert.deepEqual(
    verdicts?.rows.map((row) => row.slice(0, 4)),
    [
      ["Reply", "hits", "90", "190"],
      ["Forward", "misses", "10", "60"],
      ["Drop", "source port", "2", "3"],
    ],
  );
});

test("every interface of XDP is named", () => {
  const one = view({ datapath: "xdp", interface: "lo", mode: "generic" }, {});
  assert.equal(one.where, "listens on 127.0.0.1:7701 · xdp datapath · interface lo (generic XDP)");
  const interfaces = ["x1", "y1"].map((name) => ({ name, mode: "native" }));
  const two = view({ datapath: "xdp", interface: "x1, y1", mode: "native", interfaces }, {});
  assert.equal(two.where, "listens on 127.0.0.1:7701 · xdp datapath · interfaces x1, y1 (native XDP)");
});

test("spv: the lag behind the node", () => {
  const node = { node: { node: "bitcoind://127.0.0.1:8332", away_s: 75 } };
  const spv = view({ spv: node }, { tip_height: [9, 9], node_height: [9, 11], node_blocks_behind: [0, 2] });
  assert.equal(figure(spv, "Behind the node"), "2 blocks");
  assert.equal(figure(spv, "Node"), "no answer for 75.0 s");
  assert.equal(spv.figures.find((one) => one.label === "Node")?.isBad, true);
  assert.equal(lastOf(spv, "behind", "behind"), 2);
});

test("a lease that has ended is marked", () => {
  const spv = view({ lease_left_ms: 0 }, { lease_left: [1, 0] });
  assert.deepEqual(
    spv.figures.find((one) => one.label === "Lease"),
    { label: "Lease", value: "ended", isBad: true },
  );
});

test("transfer: accounts, sessions, sealed blocks and the durability lag", () => {
  const transfer = view(
    { name: "transfer" },
    {
      accounts: [3, 4],
      sessions: [1, 2],
      blocks: [7, 8],
      unjournaled_ops: [0, 31],
      operations: [0, 100],
      groups: [0, 4],
      journal: [0, 4096],
    },
  );
  assert.equal(figure(transfer, "Accounts"), "4");
  assert.equal(figure(transfer, "Sealed blocks"), "8");
  assert.equal(figure(transfer, "Not yet in the journal"), "31 operations");
  assert.equal(figure(transfer, "Journal written"), "4.00 KiB");
  assert.equal(lastOf(transfer, "batch", "mean"), 25);
});

test("column: ranges held and leases of region servers", () => {
  const column = view(
    { name: "column", servers_expected: 2 },
    { blocks: [1, 5], rows: [1, 40], leased_servers: [2, 1], invalidations: [0, 3], notices: [0, 9] },
  );
  assert.equal(figure(column, "Ranges held"), "5");
  assert.equal(figure(column, "Leases of region servers"), "1 of 2");
  assert.equal(lastOf(column, "table", "invalidations"), 3);
});

test("fabric: codes, and the time of the stages of a block", () => {
  const fabric = view(
    {
      name: "fabric",
      instance: "lab",
      fabric: {
        following: false,
        left: "orderer:7050: refused",
        block_age_ms: 2500,
        blocks: [{ number: 9, transactions: 5, valid: 4, commit_hash: null, stages_ns: { total: 1_500_000 } }],
      },
    },
    {
      height: [8, 10],
      blocks: [0, 2],
      "transactions=VALID": [0, 8],
      "transactions=MVCC_READ_CONFLICT": [0, 2],
      "stage=verify": [0, 0.003],
    },
  );
  assert.equal(fabric.title, "fabric: lab");
  assert.equal(figure(fabric, "Source"), "none");
  assert.equal(figure(fabric, "Last block came"), "2.50 s ago");
  assert.equal(lastOf(fabric, "transactions", "other codes"), 2);
  assert.equal(lastOf(fabric, "stages", "verify"), 0.0015);
  const rows = (id: string) => fabric.tables.find((table) => table.id === id)?.rows;
  assert.deepEqual(rows("transactions"), [["VALID", "8", "8"], ["MVCC_READ_CONFLICT", "2", "2"]]);
  assert.deepEqual(rows("recent"), [["9", "5", "4", "1.5 ms", "–"]]);
});

test("hybrid: members, nodes, votes for a change and requests by code", () => {
  const hybrid = view(
    { name: "hybrid", membership: { members: 2, nodes: 1, quorum: 1 }, connections: { open: 3 } },
    { height: [1, 4], "requests=done": [0, 9], "requests=conflict": [0, 1], verified: [0, 64], batches: [0, 8] },
  );
  assert.equal(figure(hybrid, "Members"), "2");
  assert.equal(figure(hybrid, "Votes that a change needs"), "1");
  assert.equal(figure(hybrid, "gRPC connections"), "3");
  assert.equal(lastOf(hybrid, "answers", "other codes"), 1);
  assert.equal(lastOf(hybrid, "batch", "mean"), 8);
  // A service without a fast path has neither a hit ratio nor a lease.
  assert.equal(figure(hybrid, "Hit ratio"), undefined);
});

test("a service that the page does not know is shown by its metrics", () => {
  const metric = (name: string, key: string, kind: "counter" | "gauge", unit = ""): Metric => ({
    name,
    key,
    unit,
    kind,
    help: `meaning of ${key}`,
    service: "barometer",
  });
  const barometer = view(
    { name: "barometer" },
    { trips: [10, 14], wheels: [4, 4], "stage=turn": [1, 1.5] },
    [
      metric("lineside_barometer_trips_total", "trips", "counter"),
      metric("lineside_barometer_wheels", "wheels", "gauge"),
      metric("lineside_barometer_stage_seconds_total", "stage", "counter", "seconds"),
    ],
  );
  assert.equal(lastOf(barometer, "metric-trips", "trips"), 4);
  assert.equal(lastOf(barometer, "metric-wheels", "wheels"), 4);
  assert.equal(lastOf(barometer, "metric-stage", "turn"), 0.5);
  assert.deepEqual(
    barometer.tables.find((table) => table.id === "all")?.rows.slice(0, 2),
    [
      ["lineside_barometer_trips_total", "14", "4", "meaning of trips"],
      ["lineside_barometer_wheels", "4", "–", "meaning of wheels"],
    ],
  );
});

test("tables that are nearly full are marked", () => {
  const spv = view(
    {},
    {
      "table_entries=accounts": [90, 95],
      "table_capacity=accounts": [100, 100],
      "table_entries=tree_nodes": [1, 1],
      "table_capacity=tree_nodes": [4_194_304, 4_194_304],
    },
  );
  assert.equal(figure(spv, "Fast path: accounts"), "95 of 100 (95 %)");
  assert.equal(spv.figures.find((one) => one.label === "Fast path: accounts")?.isBad, true);
  assert.equal(figure(spv, "Fast path: tree nodes"), "1 of 4.19 M (< 0.1 %)");
  // The number of accounts is shown once.
  const full: Values = { "table_entries=accounts": [95, 95], "table_capacity=accounts": [100, 100] };
  const transfer = view({ name: "transfer" }, { ...full, accounts: [95, 95] });
  assert.deepEqual(
    transfer.figures.filter((one) => one.label === "Accounts").map((one) => one.value),
    ["95 of 100 (95 %)"],
  );
});

test("no two panels of a service have one id, by which the page keeps them", () => {
  const values: Values = { "fdatasync=p50": [1, 1], "host_latency=p50": [1, 1], operations: [0, 8], groups: [0, 2] };
  for (const name of ["spv", "transfer", "column", "fabric", "hybrid"]) {
    const ids = view({ name, lease_left_ms: 1 }, { ...values, lease_left: [1, 1] }).panels.map((one) => one.id);
    assert.deepEqual(ids, [...new Set(ids)], name);
  }
});

test("the blocks of the chain and those in the fast path are different figures", () => {
  const table: Values = { "table_entries=blocks": [8, 8], "table_capacity=blocks": [16, 16] };
  const spv = view({}, { ...table, blocks: [900, 901] });
  assert.equal(figure(spv, "Blocks"), "901");
  assert.equal(figure(spv, "Fast path: blocks"), "8 of 16 (50 %)");
  const column = view({ name: "column" }, { ...table, blocks: [8, 8] });
  const ranges = column.figures.filter((one) => one.value.startsWith("8"));
  assert.deepEqual(ranges.map((one) => [one.label, one.value]), [["Ranges held", "8 of 16 (50 %)"]]);
});

test("a counter of a part of the replies says in plain words that they are counted before", () => {
  const transfer = view({ name: "transfer" }, { "replies@socket": [0, 9], "refusals@socket": [0, 2] });
  const verdicts = transfer.tables.find((table) => table.id === "verdicts");
  assert.deepEqual(
    verdicts?.rows.map((row) => row.slice(0, 2)),
    [["Reply", "replies"], ["Included in Reply", "refusals"]],
  );
});

test("a service without a fast path has its protocols, not a datapath", () => {
  assert.match(view({ name: "hybrid", protocols: ["gRPC", "UDP"] }, {}).where, / · gRPC, UDP$/);
  assert.match(view({}, {}).where, / · socket datapath$/);
});

test("a service with histograms has panels of its latency", () => {
  const spv = view({}, { "host_latency=p50": [0.000_001, 0.000_002], "host_latency=p99": [0.001, 0.004] });
  assert.equal(lastOf(spv, "host_latency", "p50"), 0.000_002);
  assert.equal(lastOf(spv, "host_latency", "p99"), 0.004);
  assert.equal(lastOf(view({}, { hits: [1, 2] }), "host_latency", "p99"), undefined);
});
