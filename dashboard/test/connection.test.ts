import assert from "node:assert/strict";
import { test } from "node:test";
import { connectionView, SILENCE_MS, timeOfDay, type Connection } from "../src/connection.js";

const NOON_MS = new Date(2026, 0, 2, 12, 3, 4).getTime();
const LIVE: Connection = { isPaused: false, couldRead: true, isBroken: false, lastEvent_ms: NOON_MS };

test("the page is live while events come", () => {
  assert.equal(connectionView(LIVE, NOON_MS + 1000).text, "live, each second");
  assert.equal(connectionView({ ...LIVE, isPaused: true }, NOON_MS + 1000).text, "paused");
  assert.equal(connectionView({ ...LIVE, lastEvent_ms: null }, NOON_MS).text, "connecting");
});

test("a lost connection has the time of its last event", () => {
  assert.equal(timeOfDay(NOON_MS), "12:03:04");
  const lost = { text: "connection lost at 12:03:04; the values are of that time", isBad: true, isLost: true };
  assert.deepEqual(connectionView({ ...LIVE, isBroken: true }, NOON_MS + 10), lost);
  assert.deepEqual(connectionView(LIVE, NOON_MS + SILENCE_MS + 1), lost);
  // A lost connection is reported even while the page is paused, because no new values will follow.
  assert.deepEqual(connectionView({ ...LIVE, isPaused: true, isBroken: true }, NOON_MS + 10), lost);
});

test("a process that cannot read its state does not count as a lost connection", () => {
  const view = connectionView({ ...LIVE, couldRead: false }, NOON_MS);
  assert.deepEqual([view.isBad, view.isLost], [true, false]);
});
