import assert from "node:assert/strict";
import { test } from "node:test";
import { bytes, NONE, percent, plain, seconds, short, shortHash, textParts, whole, withUnit } from "../src/format.js";

function table<T>(format: (value: T) => string, cases: [T, string][]): void {
  for (const [value, text] of cases) assert.equal(format(value), text, String(value));
}

test("numbers have about three digits", () => {
  table(short, [
    [null, NONE],
    [Number.NaN, NONE],
    [0, "0"],
    [7, "7"],
    [0.25, "0.25"],
    [7.5, "7.5"],
    [99.96, "100"],
    [312.4, "312"],
    [999, "999"],
    [999.7, "1.00 k"],
    [1000, "1.00 k"],
    [9737, "9.74 k"],
    [12345, "12.3 k"],
    [999_499, "999 k"],
    [999_500, "1.00 M"],
    [4_194_304, "4.19 M"],
    [-1500, "-1.50 k"],
  ]);
});

test("whole numbers keep all digits", () => {
  table(whole, [
    [1234567, "1,234,567"],
    [undefined, NONE],
  ]);
});

test("durations have the unit that fits", () => {
  table(seconds, [
    [0, "0 s"],
    [420e-9, "420 ns"],
    [51.6e-6, "51.6 µs"],
    [0.0015, "1.5 ms"],
    [5, "5.00 s"],
    [58.25, "58.3 s"],
    [125, "2 min 05 s"],
    [7500, "2 h 05 min"],
    [200_000, "2 d 07 h"],
    [null, NONE],
  ]);
});

test("shares are 0 % and 100 % only if they are exact", () => {
  table(percent, [
    [0, "0 %"],
    [0.04, "< 0.1 %"],
    [66.666, "66.7 %"],
    [99.95, "> 99.9 %"],
    [100, "100 %"],
    [null, NONE],
  ]);
});

test("memory is counted in powers of 1024", () => {
  table(bytes, [
    [512, "512 B"],
    [4096, "4.00 KiB"],
    [1.2 * 1024 ** 3, "1.20 GiB"],
  ]);
});

test("the text of a rate has its unit per second", () => {
  assert.equal(withUnit(1500, "per_s"), "1.50 k/s");
  assert.equal(withUnit(null, "per_s"), NONE);
  assert.equal(withUnit(2048, "bytes_per_s"), "2.00 KiB/s");
  assert.equal(withUnit(870_001, "whole"), "870,001");
});

test("a shortened hash keeps its first and last digits", () => {
  assert.equal(shortHash("0537e69f8e17ca1e0b984ffe737e93651091254528d2c520bea5f3e806c08589"), "0537e69f…06c08589");
  assert.equal(shortHash("abc"), "abc");
});

test("code in a text of the server is separated from its words", () => {
  const shown = (text: string) => textParts(text).map((part) => (part.isCode ? `<${part.text}>` : part.text));
  assert.deepEqual(shown("set `a = 1` in [b], or run `c`"), ["set ", "<a = 1>", " in [b], or run ", "<c>"]);
  assert.deepEqual(shown("no code"), ["no code"]);
  assert.deepEqual(shown(""), []);
  assert.deepEqual(shown("one ` alone"), ["one ` alone"]);
  assert.equal(plain("set `a = 1` in [b]"), "set a = 1 in [b]");
});
