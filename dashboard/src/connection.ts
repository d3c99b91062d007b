// State of the connection to the console, and the text that the page shows for it. The functions are pure;
// test/connection.test.ts tests them.

/** Time without an event after which the connection counts as lost. The console sends one event each second. */
export const SILENCE_MS = 4000;

export interface Connection {
  isPaused: boolean;
  /** False if the process could not read its own state when it sent the last event. */
  couldRead: boolean;
  /** True if the browser has reported that the stream is broken, and no event has come since then. */
  isBroken: boolean;
  /** Milliseconds since 1970 of the last event; null before the first. */
  lastEvent_ms: number | null;
}

export interface ConnectionView {
  text: string;
  isBad: boolean;
  /** True if the values are of an earlier time, so that the page shows them in grey. */
  isLost: boolean;
}

/** Returns the time of day, such as `07:40:12`. */
export function timeOfDay(time_ms: number): string {
  return new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" }).format(time_ms);
}

/** Returns the text that the page shows about the connection at `now_ms`, in milliseconds since 1970. */
export function connectionView(of: Connection, now_ms: number): ConnectionView {
  if (of.lastEvent_ms === null) {
    return of.isBroken
      ? { text: "no connection", isBad: true, isLost: false }
      : { text: "connecting", isBad: false, isLost: false };
  }
  if (of.isBroken || now_ms - of.lastEvent_ms > SILENCE_MS) {
    const at = timeOfDay(of.lastEvent_ms);
    return { text: `connection lost at ${at}; the values are of that time`, isBad: true, isLost: true };
  }
  if (!of.couldRead) {
    return { text: "the process does not report its state; the values are old", isBad: true, isLost: false };
  }
  return { text: of.isPaused ? "paused" : "live, each second", isBad: false, isLost: false };
}
