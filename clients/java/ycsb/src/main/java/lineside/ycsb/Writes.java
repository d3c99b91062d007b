package lineside.ycsb;

import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Deque;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;

/**
 * Log of this client's writes, with which it finds stale reads. A read is stale if its value had been replaced before
 * the read was sent: the write of that value was answered before another write of the row began, and that other write
 * was answered before the read was sent. Values are random, so no two values are equal. A value from before the start
 * of this client counts as answered at the start.
 */
final class Writes {
  /** Number of writes that are remembered for each row, the newest ones. It exceeds the number of threads. */
  private static final int KEPT = 64;

  private final ConcurrentMap<String, Deque<Write>> rows = new ConcurrentHashMap<>();

  /** One write of a row. */
  static final class Write {
    private final byte[] value;
    private final long beganNs;
    private long answeredNs = Long.MAX_VALUE;

    private Write(byte[] value, long beganNs) {
      this.value = value;
      this.beganNs = beganNs;
    }
  }

  /** Records that a write begins. */
  Write begin(String key, byte[] value) {
    Write write = new Write(value, System.nanoTime());
    Deque<Write> writes = rows.computeIfAbsent(key, unused -> new ArrayDeque<>());
    synchronized (writes) {
      writes.addLast(write);
      if (writes.size() > KEPT) {
        writes.removeFirst();
      }
    }
    return write;
  }

  /** Records that a write was answered. Reads that are sent from now on must not return an older value. */
  void answered(String key, Write write) {
    Deque<Write> writes = rows.get(key);
    synchronized (writes) {
      write.answeredNs = System.nanoTime();
    }
  }

  /** Returns true if {@code value}, read by a request sent at {@code sentNs}, had been replaced by that time. */
  boolean isStale(String key, byte[] value, long sentNs) {
    Deque<Write> writes = rows.get(key);
    if (writes == null) {
      return false;
    }
    synchronized (writes) {
      // A value that is not remembered was answered before all values that are.
      long answeredNs = Long.MIN_VALUE;
      for (Write write : writes) {
        if (Arrays.equals(write.value, value)) {
          answeredNs = write.answeredNs;
        }
      }
      for (Write write : writes) {
        if (write.answeredNs < sentNs && answeredNs < write.beganNs) {
          return true;
        }
      }
      return false;
    }
  }
}
