import assert from "node:assert/strict";
import { test } from "node:test";
import type { HistoryEvent, SeriesName } from "../src/protocol.js";
import { History, rates, ratio, sum, summary } from "../src/series.js";

const at_ms = [0, 1000, 2000, 4000, 5000];

test("a rate is the increase per second, whatever the distance of the samples", () => {
  assert.deepEqual(rates([5, 7, 10, 20, 20], at_ms), [null, 2, 3, 5, 0]);
});

test("a counter that begins again at 0 has increased by its new value", () => {
  assert.deepEqual(rates([100, 110, 4, 8, 9], at_ms), [null, 10, 4, 2, 1]);
});

test("a gap has no rate on either side", () => {
  assert.deepEqual(rates([1, null, 3, 5, 6], at_ms), [null, null, null, 1, 1]);
});

test("samples of the same moment have no rate", () => {
  assert.deepEqual(rates([1, 2], [1000, 1000]), [null, null]);
});

test("a sum ignores missing values, unless all are missing", () => {
  assert.deepEqual(sum([[1, null, 3], [10, null, null]], 3), [11, null, 3]);
  assert.deepEqual(sum([], 2), [null, null]);
});

test("a ratio is null if its divisor is 0 or missing", () => {
  assert.deepEqual(ratio([9, 0, 1, null], [10, 0, null, 4], 100), [90, null, null, 0]);
});

test("a summary has the last value, also if it is missing", () => {
  assert.deepEqual(summary([2, 4, null]), { now: null, lowest: 2, highest: 4, mean: 3 });
  assert.deepEqual(summary([null]), { now: null, lowest: null, highest: null, mean: null });
});

function name(key: string, more: Partial<SeriesName> = {}): SeriesName {
  return { service: "spv", instance: null, key, datapath: null, label: null, ...more };
}

function history(samples: (number | null)[][]): History {
  const event: HistoryEvent = {
    interval_ms: 1000,
    capacity: 4,
    metrics: [],
    series: [name("hits", { datapath: "xdp" }), name("hits", { datapath: "socket" })],
    samples: samples.map((values, i) => ({ at_ms: i * 1000, values })),
    status: null,
  };
  return new History(event);
}

test("a history keeps its capacity, and a series that came later is missing before", () => {
  const kept = history([[1, 1], [2, 1], [3, 2], [5, 2]]);
  kept.add({ at_ms: 4000, values: [9, 2, 77], added: [name("fills")], status: null });
  const series = kept.window(300).of("spv", null);
  assert.equal(series.length, 4);
  assert.deepEqual(series.values("fills"), [null, null, null, 77]);
  assert.deepEqual(series.values("hits", "xdp"), [2, 3, 5, 9]);
  assert.deepEqual(series.total("hits"), [null, 2, 2, 4]);
  assert.deepEqual(series.datapaths(), ["xdp", "socket"]);
});

test("a window has the samples of its seconds", () => {
  const series = history([[1, 1], [2, 1], [3, 2], [5, 2]]).window(1).of("spv", null);
  assert.deepEqual(series.values("hits", "xdp"), [3, 5]);
  assert.deepEqual(series.values("absent"), [null, null]);
});

test("a sample without values is a gap", () => {
  const kept = history([[1, 1]]);
  kept.add({ at_ms: 1000, values: [], added: [], status: null });
  kept.add({ at_ms: 2000, values: [4, 1], added: [], status: null });
  assert.deepEqual(kept.window(300).of("spv", null).rate("hits", "xdp"), [null, null, null]);
});

test("instances of a service are separate", () => {
  const kept = history([[1, 1]]);
  assert.equal(kept.window(300).of("spv", "lab").names().length, 0);
});
