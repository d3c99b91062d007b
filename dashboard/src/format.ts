// Converts numbers and durations to text. The functions are pure; test/format.test.ts tests them.

/** Text for a value that is not known. */
export const NONE = "–";

export type Unit = "count" | "whole" | "per_s" | "percent" | "seconds" | "bytes" | "bytes_per_s";

const GROUPED = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** Formats a whole number with all its digits: `1,234,567`. */
export function whole(value: number | null | undefined): string {
  return value === null || value === undefined || !Number.isFinite(value) ? NONE : GROUPED.format(value);
}

const STEPS = ["", " k", " M", " G", " T", " P"];

/** Formats a number with about three digits: `0.25`, `7.5`, `312`, `9.74 k`, `1.20 M`. */
export function short(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return NONE;
  const size = Math.abs(value);
  if (size < 1000) {
    if (Number.isInteger(value)) return String(value);
    if (size >= 999.5) return `${value < 0 ? "-" : ""}1.00 k`;
    return size < 10 ? trim(value.toFixed(2)) : size < 100 ? trim(value.toFixed(1)) : value.toFixed(0);
  }
  let step = 0;
  let rest = value;
  while (Math.abs(rest) >= 999.5 && step < STEPS.length - 1) {
    rest /= 1000;
    step += 1;
  }
  const digits = Math.abs(rest) < 9.995 ? 2 : Math.abs(rest) < 99.95 ? 1 : 0;
  return rest.toFixed(digits) + STEPS[step];
}

function trim(text: string): string {
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

/** Formats a duration of at least a microsecond with its unit: `420 ns`, `1.5 ms`, `58.2 s`, `2 h 05 min`. */
export function seconds(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return NONE;
  const size = Math.abs(value);
  if (size === 0) return "0 s";
  if (size < 1e-6) return `${short(value * 1e9)} ns`;
  if (size < 1e-3) return `${short(value * 1e6)} µs`;
  if (size < 1) return `${short(value * 1e3)} ms`;
  if (size < 120) return `${value.toFixed(size < 10 ? 2 : 1)} s`;
  const minutes = Math.floor(size / 60);
  if (minutes < 120) return `${minutes} min ${two(Math.floor(size % 60))} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${two(minutes % 60)} min`;
  return `${Math.floor(hours / 24)} d ${two(hours % 24)} h`;
}

function two(value: number): string {
  return String(value).padStart(2, "0");
}

/** Formats an amount of memory: `512 B`, `4.00 KiB`, `1.20 GiB`. */
export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return NONE;
  const names = ["B", "KiB", "MiB", "GiB", "TiB"];
  let step = 0;
  let rest = value;
  while (Math.abs(rest) >= 1024 && step < names.length - 1) {
    rest /= 1024;
    step += 1;
  }
  const text = step === 0 ? rest.toFixed(0) : rest.toFixed(Math.abs(rest) < 10 ? 2 : Math.abs(rest) < 100 ? 1 : 0);
  return `${text} ${names[step]}`;
}

/** Formats a share in percent. The text is `100 %` or `0 %` only if the share is exactly that. */
export function percent(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return NONE;
  if (value > 99.9 && value < 100) return "> 99.9 %";
  if (value > 0 && value < 0.1) return "< 0.1 %";
  return `${trim(value.toFixed(1))} %`;
}

/** Formats a value with its unit. */
export function withUnit(value: number | null | undefined, unit: Unit): string {
  switch (unit) {
    case "count":
      return short(value);
    case "whole":
      return whole(value);
    case "per_s":
      return value === null || value === undefined ? NONE : `${short(value)}/s`;
    case "percent":
      return percent(value);
    case "seconds":
      return seconds(value);
    case "bytes":
      return bytes(value);
    case "bytes_per_s":
      return value === null || value === undefined ? NONE : `${bytes(value)}/s`;
  }
}

/** Returns the name of a unit in words, for the description of a chart. */
export function unitName(unit: Unit): string {
  return {
    count: "number",
    whole: "number",
    per_s: "per second",
    percent: "percent",
    seconds: "seconds",
    bytes: "bytes",
    bytes_per_s: "bytes per second",
  }[unit];
}

/** Returns `name` with spaces in place of underscores. */
export function words(name: string): string {
  return name.replaceAll("_", " ");
}

/** Returns the first and last digits of a long hash. */
export function shortHash(hash: string): string {
  return hash.length <= 20 ? hash : `${hash.slice(0, 8)}…${hash.slice(-8)}`;
}

/** Part of a text: code, which the text encloses in backticks, or words. */
export interface TextPart {
  text: string;
  isCode: boolean;
}

/** Splits a text from the server into words and code. An unpaired backtick belongs to the words. */
export function textParts(text: string): TextPart[] {
  return text
    .split(/(`[^`]+`)/)
    .filter((part) => part !== "")
    .map((part) => {
      const isCode = part.length > 2 && part.startsWith("`") && part.endsWith("`");
      return { text: isCode ? part.slice(1, -1) : part, isCode };
    });
}

/** Returns a text from the server without the backticks around code, for places that cannot show code. */
export function plain(text: string): string {
  return textParts(text)
    .map((part) => part.text)
    .join("");
}
